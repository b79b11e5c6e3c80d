"""Ablations: run the unfinished runs of a grid, continue interrupted ones, skip finished ones."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trivet.ablation.grid import Grid, Run
from trivet.ablation.grid_run import Rows, finish, state_of
from trivet.ablation.score_rows import load_rows
from trivet.errors import ConfigError
from trivet.labelled.sources import load_source
from trivet.training.training_rows import load_training_rows

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Failure:
    """A failed run and the reason."""

    run: Run
    reason: str


def ablate(grid: Grid, command: str = "trivet ablate") -> list[Failure]:
    """Finish every run of a grid, and return those that failed.

    Args:
        grid: Grid.
        command: Command line, recorded in every bundle.

    Raises:
        ConfigError: Runs were begun with another configuration (the message names all), or test
            rows have groups that a run is trained on.
        DataError: A source cannot be read.
    """
    left = _unfinished(grid)
    logger.info("%d runs, %d of them finished before", len(grid.runs), len(grid.runs) - len(left))
    if not left:
        return []
    rows = load_rows(grid.test)
    _check_held_out(left, rows)
    return list(_one_by_one(grid, left, rows, command))


def _unfinished(grid: Grid) -> list[Run]:
    left, refused = [], []
    for run in grid.runs:
        try:
            if state_of(run, grid.test) != "finished":
                left.append(run)
        except ConfigError as error:
            refused.append(str(error))
    if refused:
        raise ConfigError("\n".join(refused))
    return left


def _check_held_out(runs: Sequence[Run], rows: Rows) -> None:
    """Refuse test rows of source documents that a run is trained on in spite of ``data.test``."""
    measured = {(row.source, row.group) for test_rows in rows.values() for row in test_rows}
    load = functools.cache(load_source)
    checked: set[str] = set()
    for run in runs:
        if (data := f"{run.config.data} {run.seed}") in checked:
            continue
        checked.add(data)
        trained = load_training_rows(run.config, load)[0]
        shared = sorted({(row.source, row.group) for row in trained} & measured)
        if shared:
            name, group = shared[0]
            raise ConfigError(
                f"{run.name}: {len(shared)} groups of the test rows are trained on, first "
                f"{group!r} of {name}; name the test rows in data.test, which leaves their groups "
                "out of training, or measure on another split"
            )


def _one_by_one(grid: Grid, runs: Sequence[Run], rows: Rows, command: str) -> Iterator[Failure]:
    for run in runs:
        try:
            finish(run, grid.test, rows, command=command)
        except Exception as error:  # the other runs continue
            logger.error("%s failed: %s", run.name, error, exc_info=True)
            yield Failure(run, f"{type(error).__name__}: {error}")
