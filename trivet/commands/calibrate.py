"""``trivet calibrate``: fit probabilities and thresholds on dev rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from trivet.calibration.choices import Choices
from trivet.commands.options import (
    BackendOption,
    DataOption,
    DeviceOption,
    SplitOption,
    options,
)
from trivet.commands.shared import NO_SEPARATION, needs_extra
from trivet.measures.rule import Rule
from trivet.settings import Setting


@options
def calibrate(
    bundle: Annotated[Path, Setting("Folder of a bundle with weights.", "BUNDLE")],
    *,
    data: DataOption,
    split: SplitOption = "dev",
    choices: Choices,
    precision_at_least: Annotated[
        float | None,
        Setting("Flag as much as this precision allows.", metavar="P", least=0.01, most=1),
    ] = None,
    false_alarms: Annotated[
        float | None,
        Setting(
            "Flag at most this share of faithful responses, in each data set with enough "
            "documents; default: 0.1.",
            metavar="RATE",
            least=0.001,
            most=0.999,
        ),
    ] = None,
    prior: Annotated[
        float | None,
        Setting(
            "Choose the best F1, or the precision, for this share of hallucinated responses.",
            metavar="SHARE",
            least=0.001,
            most=0.999,
        ),
    ] = None,
    thresholds_only: Annotated[
        bool, Setting("Keep probabilities and graphs; choose thresholds by the fastest graph.")
    ] = False,
    out: Annotated[
        Path | None, Setting("Change a copy of the bundle instead.", metavar="FOLDER")
    ] = None,
    report: Annotated[
        Path | None, Setting("Report of errors and curves to write: FILE.html or a folder.")
    ] = None,
    backend: BackendOption = None,
    device: DeviceOption = None,
) -> None:
    """Fit probabilities and thresholds of a bundle on dev rows.

    Graphs of the bundle are removed, unless --thresholds-only is given; run `trivet export onnx`
    afterwards. The sentence threshold is chosen by the rate of false alarms, or with --prior by F1
    or with --precision-at-least by precision, and the span threshold by the F1 of spans. If the
    rows do not justify a new threshold, the old one is kept and the exit code is 4. Probabilities
    are fitted to logits of torch, so --backend is for --thresholds-only, which needs no torch.
    """
    if choices.lexical_overlap and choices.method != "platt":
        raise typer.BadParameter(f"--lexical-overlap needs --method platt, not {choices.method}")
    if false_alarms is not None and (prior is not None or precision_at_least is not None):
        raise typer.BadParameter(
            "--false-alarms excludes --prior and --precision-at-least; give one of them"
        )
    if thresholds_only and report is not None:
        raise typer.BadParameter("--report needs fitted probabilities; drop --thresholds-only")
    if backend is not None and not thresholds_only:
        raise typer.BadParameter(
            "--backend needs --thresholds-only; logits for the fit come from torch"
        )
    by_rate = prior is None and precision_at_least is None
    from trivet.calibration.bundle_thresholds import choose_thresholds
    from trivet.calibration.report import check_path, lines, write_report

    if report is not None:
        check_path(report)
    rule = Rule((false_alarms or 0.1) if by_rate else None, precision_at_least, prior)
    choices = replace(choices, rule=rule)
    if out is not None and out.exists():
        raise typer.BadParameter(f"--out {out} exists already; choose another folder")
    if thresholds_only:
        chosen = choose_thresholds(
            bundle, data, split, choices, out, backend=backend, device=device
        )
        print("\n".join(lines((), chosen)))
    else:
        with needs_extra("train"):
            from trivet.calibrate import calibrate as fit_heads
        found = fit_heads(bundle, data, split, choices, out, device)
        chosen = found.chosen
        print("\n".join(lines(found.reports, chosen)))
        if report is not None:
            print(write_report(report, found.info, found.reports, chosen))
    if any(one.threshold is None for one in chosen.uses):
        raise typer.Exit(NO_SEPARATION)
