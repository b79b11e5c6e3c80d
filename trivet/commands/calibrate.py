"""``trivet calibrate``: probabilities and thresholds fitted on dev rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trivet.calibration import options as calibration_options
from trivet.commands.shared import NO_SEPARATION, needs_extra


def calibrate(
    bundle: Annotated[Path, typer.Argument(help="Folder of a bundle with weights.")],
    data: Annotated[list[str], typer.Option(help="Labelled rows no weight was trained on.")],
    split: Annotated[str, typer.Option(help="Their split.")] = "dev",
    method: calibration_options.Method = "platt",
    heads: calibration_options.Heads = None,
    support_level: calibration_options.SupportLevel = "sentence",
    weigh: calibration_options.Weigh = "example",
    only: calibration_options.Only = None,
    precision_at_least: calibration_options.PrecisionAtLeast = None,
    thresholds_from: calibration_options.ThresholdsFrom = None,
    overlap: calibration_options.Overlap = False,
    report: calibration_options.Report = None,
) -> None:
    """Fit a bundle's probabilities and thresholds on dev rows; export again afterwards.

    Where no threshold is justified the old one stays, and the exit code is 4.
    """
    if overlap and method != "platt":
        raise typer.BadParameter(f"--overlap is fitted with --method platt, not {method}")
    with needs_extra("train"):
        from trivet.calibrate import Choices
        from trivet.calibrate import calibrate as fit_heads
        from trivet.calibration import report as calibration_report
    if report is not None:
        calibration_report.check_path(report)
    choices = Choices(
        method=method,
        heads=tuple(head.value for head in heads or ()),
        level=support_level,
        weighing=weigh,
        only=tuple(only or ()),
        thresholds_from=tuple(thresholds_from or ()),
        least_precision=precision_at_least,
        overlap=overlap,
    )
    found = fit_heads(bundle, data, split, choices)
    print("\n".join(calibration_report.lines(found.reports, found.uses)))
    if report is not None:
        print(calibration_report.write_report(report, found.info, found.reports, found.uses))
    if any(one.threshold is None for one in found.uses):
        raise typer.Exit(NO_SEPARATION)
