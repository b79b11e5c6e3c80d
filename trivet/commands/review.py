"""``trivet review``: a person accepts or corrects labels in the browser."""

from __future__ import annotations

import contextlib
import getpass
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from trivet.commands.options import BundleOption, LabelledArgument, options
from trivet.commands.shared import run_exits
from trivet.settings import Setting


@options
def review(
    labelled: LabelledArgument,
    *,
    out: Annotated[
        Path | None, Setting("Reviewed rows as labelled JSONL; default: LABELLED.reviewed.jsonl.")
    ] = None,
    order: Annotated[
        Literal["file", "uncertainty"],
        Setting(
            "After the rows on which annotators disagree: the order of the file, or those first "
            "of which the judge is least sure."
        ),
    ] = "file",
    reviewer: Annotated[
        str | None, Setting("Your name; default: that of the account.", metavar="NAME")
    ] = None,
    port: Annotated[int, Setting("Port; 0: a free one.", least=0, most=65535)] = 8766,
    open_page: Annotated[bool, Setting("Open the page in the browser.", "--open/--no-open")] = True,
    bundle: BundleOption = None,
) -> None:
    """Accept or correct labels on a local page.

    Keys alone are enough. Each accepted row is written at once; the same command continues.
    Ctrl-C ends.
    """
    from trivet.annotation.review.review import Review, read_rows
    from trivet.annotation.review.review import order as in_order
    from trivet.annotation.review.reviewed_file import ReviewedFile
    from trivet.annotation.review.server import ReviewServer

    rows = read_rows(labelled)
    out = out or labelled.with_name(f"{labelled.name.split('.jsonl')[0]}.reviewed.jsonl")
    if out.exists() and out.samefile(labelled):
        raise typer.BadParameter(f"--out {out} is the input; choose another file")
    with run_exits(), ReviewedFile(out) as file:
        doubts = None
        if order == "uncertainty":
            from trivet.annotation.review.review import measure_uncertainty
            from trivet.batch.progress import show_line
            from trivet.evaluation.evaluator import Evaluator

            doubts = []
            with show_line() as say:
                labelled_rows = [row.labelled for row in rows]
                for doubt in measure_uncertainty(Evaluator(bundle), labelled_rows):
                    doubts.append(doubt)
                    say(lambda: f"judge: {len(doubts):,} of {len(rows):,} rows")
        queue = Review(labelled, [rows[n] for n in in_order(rows, doubts)], file, name_of(reviewer))
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
