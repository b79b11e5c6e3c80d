"""``trivet show`` and ``report``: files of verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from trivet.commands.options import options
from trivet.commands.shared import run_exits
from trivet.settings import Setting

VerdictsArgument = Annotated[Path, Setting("File of verdicts.", "VERDICTS")]


@options
def show(
    verdicts: VerdictsArgument,
    *,
    id_: Annotated[
        str | None, Setting("Id or row number; default: the least faithful.", "--id", metavar="ID")
    ] = None,
    log: Annotated[
        str | None, Setting("Log with the texts; default: that of the run's record.", metavar="LOG")
    ] = None,
) -> None:
    """Show one verdict of a file in the terminal.

    Scores, the answer with unsupported spans in brackets, and contexts.
    """
    from trivet.report.terminal import find_row, render_row, show
    from trivet.report.verdict_files import VerdictFile

    show(render_row(find_row(VerdictFile(verdicts, log), id_)))


@options
def report(
    verdicts: VerdictsArgument,
    other: Annotated[Path | None, Setting("Verdicts of a second run, to compare.", "OTHER")] = None,
    *,
    out: Annotated[Path, Setting("Page to write; a single file.")] = Path("report.html"),
    log: Annotated[
        list[str] | None,
        Setting(
            "Log with the texts; default: the one in the run's record. Repeatable, for the "
            "second run.",
            metavar="LOG",
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        Setting(
            "Group by this metadata column; default: all with 2 to 20 values. Repeatable.",
            metavar="COLUMN",
        ),
    ] = None,
    shown: Annotated[int, Setting("Number of answers, the worst first.", least=0)] = 500,
) -> None:
    """Write an HTML page about verdicts.

    It shows what to do, the worst answers, and figures; with a second file, paired differences
    and the answers that changed most.
    """
    from trivet.report.write_report import write_report

    with run_exits():
        write_report(
            [verdicts] if other is None else [verdicts, other],
            out,
            logs=log or [],
            by=by or [],
            shown=shown,
        )
    print(out)
