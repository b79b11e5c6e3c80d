"""``trivet calibrate``: fit probabilities and thresholds on dev rows."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from trivet.commands.shared import NO_SEPARATION, BackendOption, DeviceOption, needs_extra


class Head(StrEnum):
    """Heads of the model."""

    support = "support"
    relevance = "relevance"
    utilization = "utilization"


def calibrate(
    bundle: Annotated[
        Path, typer.Argument(metavar="BUNDLE", help="Folder of a bundle with weights.")
    ],
    data: Annotated[
        list[str],
        typer.Option(
            metavar="SPEC",
            help="Labelled rows that no weight was trained on: jsonl:dev.jsonl. Repeatable.",
        ),
    ],
    split: Annotated[str, typer.Option(help="Split of the rows.")] = "dev",
    method: Annotated[
        Literal["platt", "temperature", "isotonic"],
        typer.Option(help="platt: scale and shift; temperature: scale; isotonic: a rising map."),
    ] = "platt",
    heads: Annotated[
        list[Head] | None,
        typer.Option(
            "--head",
            metavar="HEAD",
            help="support, relevance or utilization; default: all with labels. Repeatable.",
        ),
    ] = None,
    support_level: Annotated[
        Literal["sentence", "response", "both"],
        typer.Option(help="Fit support to labels of sentences, responses or both."),
    ] = "sentence",
    weigh: Annotated[
        Literal["example", "sentence"],
        typer.Option(help="Give each example, or each sentence, the same weight."),
    ] = "example",
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="PREFIX", help="Use these sources; default: all. Repeatable."),
    ] = None,
    precision_at_least: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=1,
            metavar="P",
            help="Flag as much as this precision allows.",
        ),
    ] = None,
    false_alarms: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=0.999,
            metavar="RATE",
            help="Flag at most this share of faithful responses, in each data set with enough "
            "documents; default: 0.1.",
        ),
    ] = None,
    prior: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=0.999,
            metavar="SHARE",
            help="Choose the best F1, or the precision, for this share of hallucinated responses.",
        ),
    ] = None,
    thresholds_from: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PREFIX",
            help="Choose thresholds on these sources; default: all. Repeatable.",
        ),
    ] = None,
    lexical_overlap: Annotated[
        bool,
        typer.Option(
            help="Also weigh the words that a sentence shares with the contexts (support), the "
            "question (relevance) or the response (utilization)."
        ),
    ] = False,
    thresholds_only: Annotated[
        bool,
        typer.Option(
            "--thresholds-only",
            help="Keep probabilities and graphs; choose thresholds by the fastest graph.",
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Change a copy of the bundle instead.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Report of errors and curves to write: FILE.html or a folder."),
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
    if lexical_overlap and method != "platt":
        raise typer.BadParameter(f"--lexical-overlap needs --method platt, not {method}")
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
    from trivet.calibration.bundle_thresholds import Choices, choose_thresholds
    from trivet.calibration.report import check_path, lines, write_report
    from trivet.measures.thresholds import Rule

    if report is not None:
        check_path(report)
    choices = Choices(
        method=method,
        heads=tuple(head.value for head in heads or ()),
        level=support_level,
        weighing=weigh,
        only=tuple(only or ()),
        thresholds_from=tuple(thresholds_from or ()),
        rule=Rule((false_alarms or 0.1) if by_rate else None, precision_at_least, prior),
        lexical_overlap=lexical_overlap,
    )
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
