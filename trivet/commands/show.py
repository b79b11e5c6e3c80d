"""``trivet show``: one verdict of a file in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def show(
    verdicts: Annotated[Path, typer.Argument(metavar="VERDICTS", help="File of verdicts.")],
    id_: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="Id or row number; default: the least faithful."),
    ] = None,
    log: Annotated[
        str | None,
        typer.Option(metavar="LOG", help="Log with the texts; default: that of the run's record."),
    ] = None,
) -> None:
    """Show one verdict of a file in the terminal.

    Scores, the answer with unsupported spans in brackets, and contexts.
    """
    from trivet.report.one_verdict import find_row, render_row
    from trivet.report.terminal import show
    from trivet.report.verdict_files import VerdictFile

    show(render_row(find_row(VerdictFile(verdicts, log), id_)))
