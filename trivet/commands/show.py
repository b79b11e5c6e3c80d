"""``trivet show``: one verdict of a file in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from trivet.commands.options import options
from trivet.settings import Setting


@options
def show(
    verdicts: Annotated[Path, Setting("File of verdicts.", "VERDICTS")],
    *,
    id_: Annotated[
        str | None,
        Setting("Id or row number; default: the least faithful.", "--id", metavar="ID"),
    ] = None,
    log: Annotated[
        str | None,
        Setting("Log with the texts; default: that of the run's record.", metavar="LOG"),
    ] = None,
) -> None:
    """Show one verdict of a file in the terminal.

    Scores, the answer with unsupported spans in brackets, and contexts.
    """
    from trivet.report.one_verdict import find_row, render_row
    from trivet.report.terminal import show
    from trivet.report.verdict_files import VerdictFile

    show(render_row(find_row(VerdictFile(verdicts, log), id_)))
