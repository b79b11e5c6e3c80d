"""``trivet report``: an HTML page about verdicts, or a comparison of two runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trivet.commands.shared import check_share


def report(
    verdicts: Annotated[Path, typer.Argument(metavar="VERDICTS", help="File of verdicts.")],
    other: Annotated[
        Path | None, typer.Argument(metavar="OTHER", help="Verdicts of a second run, to compare.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Page to write; a single file.")] = Path("report.html"),
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LOG",
            help="Log with the texts; default: the one in the run's record. Repeatable, for the "
            "second run.",
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Group by this metadata column; default: all with 2 to 20 values. Repeatable.",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            metavar="FAITHFULNESS",
            callback=check_share,
            help="Call answers below it unsupported; default: the verdicts as they are.",
        ),
    ] = None,
    shown: Annotated[int, typer.Option(min=0, help="Number of answers, the worst first.")] = 500,
) -> None:
    """Write an HTML page about verdicts.

    It shows what to do, the worst answers, and figures; with a second file, paired differences
    and the answers that changed most.
    """
    from trivet.report.write_report import write_report

    write_report(
        [verdicts] if other is None else [verdicts, other],
        out,
        logs=data or [],
        threshold=threshold,
        by=by or [],
        shown=shown,
    )
    print(out)
