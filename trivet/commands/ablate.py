"""``trivet ablate``: train a grid of runs and compare them."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from trivet.commands.options import options
from trivet.commands.shared import SOME_FAILED, needs_extra, what_was_typed
from trivet.settings import Setting


@options
def ablate(
    grid_and_overrides: Annotated[
        list[str], Setting("Grid file and changed values.", "GRID.yaml [KEY=VALUE]...")
    ],
    *,
    out: Annotated[
        Path | None, Setting("Folder of the runs; default: runs/ablations/GRID.")
    ] = None,
    jobs: Annotated[int, Setting("Number of parallel runs.", least=1)] = 1,
    table_only: Annotated[bool, Setting("Only compare finished runs.")] = False,
    replace_changed: Annotated[bool, Setting("Repeat runs of another configuration.")] = False,
) -> None:
    """Train every cell of a grid and compare them in one table.

    Each cell is trained with every seed. Finished runs are skipped, interrupted ones continue. The
    table is written to the folder of the runs as Markdown, JSON and a page.
    """
    grids = [Path(word) for word in grid_and_overrides if "=" not in word]
    overrides = [word for word in grid_and_overrides if "=" in word]
    if len(grids) != 1:
        raise typer.BadParameter("give one grid file, and KEY=VALUE for changed values")
    with needs_extra("train"):
        from trivet.ablate import ablate as run_grid
        from trivet.ablation.grid import read_grid
        from trivet.ablation.page import write_table
        from trivet.ablation.table import tabulate
    grid = read_grid(grids[0], out, overrides)
    logging.getLogger("trivet").setLevel(logging.INFO)
    failures = [] if table_only else run_grid(grid, jobs, replace_changed, what_was_typed())
    table = tabulate(grid, what_was_typed())
    print(write_table(table, grid.folder))
    for failure in failures:
        print(f"{failure.run.name} failed: {failure.reason}", file=sys.stderr)
    if failures:
        raise typer.Exit(SOME_FAILED)
