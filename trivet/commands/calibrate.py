"""``trivet calibrate``: fit probabilities and thresholds on dev rows."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from trivet.commands.shared import NO_SEPARATION, needs_extra


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
            help="Choose thresholds that flag most with this precision; default: best F1.",
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
    report: Annotated[
        Path | None,
        typer.Option(help="Report of errors and curves to write: FILE.html or a folder."),
    ] = None,
) -> None:
    """Fit probabilities and thresholds of a bundle on dev rows.

    Graphs of the bundle are removed; run `trivet export onnx` afterwards. If the rows do not
    justify a new threshold, the old one is kept and the exit code is 4.
    """
    if lexical_overlap and method != "platt":
        raise typer.BadParameter(f"--lexical-overlap needs --method platt, not {method}")
    with needs_extra("train"):
        from trivet.calibrate import Choices
        from trivet.calibrate import calibrate as fit_heads
        from trivet.calibration.report import check_path, lines, write_report
    if report is not None:
        check_path(report)
    choices = Choices(
        method=method,
        heads=tuple(head.value for head in heads or ()),
        level=support_level,
        weighing=weigh,
        only=tuple(only or ()),
        thresholds_from=tuple(thresholds_from or ()),
        least_precision=precision_at_least,
        lexical_overlap=lexical_overlap,
    )
    found = fit_heads(bundle, data, split, choices)
    print("\n".join(lines(found.reports, found.uses)))
    if report is not None:
        print(write_report(report, found.info, found.reports, found.uses))
    if any(one.threshold is None for one in found.uses):
        raise typer.Exit(NO_SEPARATION)
