"""``trivet compare``: evaluators of faithfulness on the same labelled rows."""

from __future__ import annotations

import sys

import typer

from trivet.commands.options import options
from trivet.commands.shared import USAGE, end, run_exits, what_was_typed
from trivet.peers.settings import ComparisonSettings


@options
def compare(settings: ComparisonSettings) -> None:
    """Compare evaluators of faithfulness on the same labelled rows.

    Predictions are kept in --out as they are made, and the same command resumes. Peers whose
    predictions are complete are not run again: the tables are made from the files. After all
    shards, the command without --shard joins them and makes the tables.
    """
    from trivet.llm.chat import LlmError
    from trivet.peers.comparison import compare_peers

    prices, files = map(_pairs, (settings.price, settings.predictions))
    try:
        with run_exits():
            tables = compare_peers(settings, files, prices, what_was_typed())
    except LlmError as error:
        raise end(error, USAGE) from error
    if tables is None:
        shard = f"shard {settings.shard} is scored; the tables are made without --shard"
        print(shard, file=sys.stderr)
        return
    print(tables)
    page = f"{settings.out / 'comparison.html'} has curves and the rows on which peers disagree"
    print(page, file=sys.stderr)


def _pairs(texts: list[str] | None) -> dict[str, str]:
    pairs = {}
    for text in texts or ():
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise typer.BadParameter(f"{text!r} must be NAME=VALUE")
        pairs[name] = value
    return pairs
