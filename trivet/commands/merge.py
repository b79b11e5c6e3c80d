"""``trivet merge``: the verdicts of shards as one file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from trivet.commands.options import options
from trivet.commands.shared import SOME_FAILED, run_exits
from trivet.settings import Setting


@options
def merge(
    shards: Annotated[list[Path], Setting("Verdicts of each shard.", "SHARD")],
    *,
    out: Annotated[Path, Setting("Merged file: .jsonl, .json, .csv, .parquet, .xlsx.")],
) -> None:
    """Merge the verdicts of all shards into one file.

    The result is the same as of one run. Nothing is written if a shard is missing, unfinished or
    of another run.
    """
    from trivet.batch.merge import merge as merge_shards

    with run_exits():
        tally = merge_shards(shards, out).counts
    print("\n".join(tally.lines()), file=sys.stderr)
    if tally.failed:
        raise typer.Exit(SOME_FAILED)
