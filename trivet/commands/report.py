"""``trivet report``: verdicts as a page to read, or two runs compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trivet.commands.shared import parse_level


def report(
    verdicts: Annotated[Path, typer.Argument(help="What `trivet evaluate --out` wrote.")],
    other: Annotated[
        Path | None,
        typer.Argument(help="A second run over the same questions, to compare with."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The page: one file, which loads nothing.")] = Path(
        "report.html"
    ),
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="The log that was judged, for its texts; the one the run's record names if not "
            "given. Repeat it for the second run."
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(help="Group by this column of the metadata; all of few values if not given."),
    ] = None,
    low: Annotated[
        list[str] | None,
        typer.Option(help="SCORE=LIMIT: below it an answer counts as a failure; repeat it."),
    ] = None,
    shown: Annotated[int, typer.Option(min=0, help="How many answers, the worst first.")] = 500,
) -> None:
    """Write a page about verdicts: scores, what is wrong, groups, and the worst answers.

    With a second file: paired differences, and the answers that changed most.
    """
    limits = dict(
        parse_level(pair, f"--low {pair} must be SCORE=LIMIT, such as relevance=0.2")
        for pair in low or []
    )
    from trivet.report.tally import Limits
    from trivet.report.write_report import write_report

    write_report(
        [verdicts] if other is None else [verdicts, other],
        out,
        logs=data or [],
        limits=Limits.from_words(limits),
        by=by or [],
        shown=shown,
    )
    print(out)
