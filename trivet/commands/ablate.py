"""``trivet ablate``: a grid of runs becomes one table."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from trivet.commands.shared import SOME_FAILED, needs_extra, what_was_typed


def ablate(
    grid_and_overrides: Annotated[
        list[str],
        typer.Argument(metavar="GRID.yaml [KEY=VALUE]...", help="A grid file, and its changes."),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the runs; runs/ablations/GRID if not given.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many runs at a time.")] = 1,
    table_only: Annotated[bool, typer.Option(help="Train nothing; compare what is there.")] = False,
    replace_changed: Annotated[
        bool, typer.Option(help="Run anew what was begun with another configuration.")
    ] = False,
) -> None:
    """Train every cell of a grid with every seed; compare them in one table.

    Finished runs are skipped, broken-off ones go on. The table (Markdown, JSON and a page) stands
    in the folder of the runs.
    """
    grids = [Path(word) for word in grid_and_overrides if "=" not in word]
    overrides = [word for word in grid_and_overrides if "=" in word]
    if len(grids) != 1:
        raise typer.BadParameter("give one grid file, and KEY=VALUE for what is to be different")
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
