"""``trivet review``: a person accepts or corrects labels in the browser."""

from __future__ import annotations

import contextlib
import getpass
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from trivet.commands.shared import BundleOption, run_exits


def review(
    labelled: Annotated[Path, typer.Argument(metavar="LABELLED", help="Labelled JSONL.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Reviewed rows as labelled JSONL; default: LABELLED.reviewed.jsonl."),
    ] = None,
    by: Annotated[
        Literal["file", "uncertainty"],
        typer.Option(
            help="After the rows on which annotators disagree: the order of the file, or those "
            "first of which the judge is least sure."
        ),
    ] = "file",
    reviewer: Annotated[
        str | None, typer.Option(metavar="NAME", help="Your name; default: that of the account.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: a free one.")] = 8766,
    open_page: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in the browser.")
    ] = True,
    bundle: BundleOption = None,
) -> None:
    """Accept or correct labels on a local page, by keys alone if you like.

    Each accepted row is written at once; the same command continues. Ctrl-C ends.
    """
    from trivet.annotation.review.review import Review, order, read_rows
    from trivet.annotation.review.reviewed_file import ReviewedFile
    from trivet.annotation.review.server import ReviewServer

    rows = read_rows(labelled)
    out = out or labelled.with_name(f"{labelled.name.split('.jsonl')[0]}.reviewed.jsonl")
    if out.exists() and out.samefile(labelled):
        raise typer.BadParameter(f"--out {out} is the input; choose another file")
    with run_exits(), ReviewedFile(out) as file:
        doubts = None
        if by == "uncertainty":
            from rich.console import Console
            from rich.progress import track

            from trivet.annotation.review.review import measure_uncertainty
            from trivet.evaluation.evaluator import Evaluator

            console = Console(stderr=True)
            found = measure_uncertainty(Evaluator(bundle), [row.labelled for row in rows])
            hidden = not console.is_terminal
            doubts = list(track(found, "judge", total=len(rows), console=console, disable=hidden))
        queue = Review(labelled, [rows[n] for n in order(rows, doubts)], file, name_of(reviewer))
        with ReviewServer(queue, port) as server:
            print(server.url, flush=True)
            print(
                f"{len(queue.rows) - len(queue.left())} of {len(rows)} rows are reviewed in {out}; "
                "Ctrl-C ends",
                file=sys.stderr,
            )
            if open_page:
                typer.launch(server.url)
            with contextlib.suppress(KeyboardInterrupt):
                server.serve_forever()


def name_of(reviewer: str | None) -> str:
    """Return the reviewer's name: the given one, or that of the account."""
    with contextlib.suppress(OSError, KeyError):
        return reviewer or getpass.getuser()
    return "unknown"
