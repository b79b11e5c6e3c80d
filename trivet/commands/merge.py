"""``trivet merge``: the shards of a log put together."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from trivet.commands.shared import SOME_FAILED


def merge(
    shards: Annotated[
        list[Path],
        typer.Argument(help="The --out of each `trivet evaluate --shard NUMBER/COUNT`."),
    ],
    out: Annotated[Path, typer.Option(help="The merged file, .jsonl or .parquet.")],
) -> None:
    """Put the verdicts of all shards together, as one run over the whole log writes them.

    Nothing is written where a shard is missing, unfinished, or of another run.
    """
    from trivet.batch.merge import merge as merge_shards
    from trivet.commands.run_exits import run_exits

    with run_exits():
        tally = merge_shards(shards, out).counts
    print("\n".join(tally.lines()), file=sys.stderr)
    if tally.failed:
        raise typer.Exit(SOME_FAILED)
