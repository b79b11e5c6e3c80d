"""The table of a grid: each measure of each cell over seeds, and its difference to the first cell.

- The value of a cell is the mean over seeds, with Student's t interval; one seed has none.
- A difference is the mean over the seeds that both cells finished. ``rows_low`` to ``rows_high`` is
  its paired bootstrap over source documents, ``seeds_low`` to ``seeds_high`` the t interval of the
  paired differences over seeds.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from trivet.ablation.comparison import MEASURES, Compared, compare_runs
from trivet.ablation.grid import Grid, Run
from trivet.ablation.grid_run import VERDICTS, Finished, read_done, state_of
from trivet.ablation.judged_rows import read_rows
from trivet.errors import DataError
from trivet.measures.intervals import Estimate
from trivet.records import FailedEvaluation


@dataclass(frozen=True)
class CellValue:
    """One measure of one cell; 95 % intervals, whose missing ends are None."""

    test: str
    source: str
    overall: bool
    measure: str
    cell: str
    mean: float | None  # over seeds; None if undefined
    low: float | None
    high: float | None
    seeds: dict[int, float]  # value of each finished seed
    n: int
    positives: int | None
    groups: int
    difference: float | None = None  # to the first cell over common seeds; None for the first
    rows_low: float | None = None
    rows_high: float | None = None
    seeds_low: float | None = None
    seeds_high: float | None = None


@dataclass(frozen=True)
class Cost:
    """The cost of a cell; seconds are means over seeds, with 95 % t intervals."""

    cell: str
    overrides: tuple[str, ...]
    seeds: tuple[int, ...]  # finished ones
    parameters: int | None = None
    steps: tuple[int | None, ...] = ()
    training_seconds: float | None = None  # with validation
    training_low: float | None = None
    training_high: float | None = None
    inference_seconds: float | None = None  # in the model, per 1000 windows
    inference_low: float | None = None
    inference_high: float | None = None
    device: str | None = None
    failed_rows: int = 0  # over all seeds
    remarks: tuple[str, ...] = ()  # circumstances that make times hard to compare


@dataclass(frozen=True)
class Table:
    """The results of a grid; its cells are compared with the first."""

    name: str
    command: str
    cells: tuple[str, ...]
    seeds: tuple[int, ...]
    missing: tuple[str, ...]  # unfinished runs, CELL/seedN
    costs: tuple[Cost, ...]
    values: tuple[CellValue, ...]

    def to_json(self) -> str:
        """Return JSON text; never NaN."""
        return json.dumps(
            {**dataclasses.asdict(self), "higher_is_better": MEASURES}, indent=2, allow_nan=False
        )


def tabulate(grid: Grid, command: str = "trivet ablate") -> Table:
    """Compare the finished runs of a grid.

    Raises:
        ConfigError: A run has another configuration than the grid.
        DataError: No run is finished, or stored verdicts are damaged or of different rows.
    """
    finished = [
        (run, done)
        for run in grid.runs
        if state_of(run, grid.test) == "finished" and (done := read_done(run)) is not None
    ]
    if not finished:
        raise DataError(f"{grid.folder}: no run is finished, there is nothing to compare yet")
    judged = [read_rows(run.folder / VERDICTS) for run, _ in finished]
    compared = compare_runs(judged)
    failed = [
        sum(isinstance(row.prediction.evaluation, FailedEvaluation) for row in rows)
        for rows in judged
    ]
    runs = [run for run, _ in finished]
    return Table(
        name=grid.name,
        command=command,
        cells=tuple(grid.cells),
        seeds=grid.seeds,
        missing=tuple(run.name for run in grid.runs if run not in runs),
        costs=tuple(_cost(cell, grid, finished, failed) for cell in grid.cells),
        values=tuple(
            value for measure in compared for value in values_of(measure, runs, tuple(grid.cells))
        ),
    )


def values_of(measure: Compared, runs: Sequence[Run], cells: Sequence[str]) -> list[CellValue]:
    """Return the values of a measure for each cell with a finished run, in order."""
    index = {(run.cell, run.seed): i for i, run in enumerate(runs)}
    values = []
    for cell in cells:
        seeds = {seed: i for (name, seed), i in index.items() if name == cell}
        if not seeds:
            continue
        points = {seed: measure.estimates[i].value for seed, i in seeds.items()}
        defined = {seed: point for seed, point in points.items() if point is not None}
        mean, low, high = t_interval(list(defined.values()))
        pairs = [(i, index[cells[0], s]) for s, i in seeds.items() if (cells[0], s) in index]
        difference = _difference(measure, pairs if cell != cells[0] else ())
        name = (measure.test, measure.source, measure.overall, measure.measure, cell)
        counts = (measure.n, measure.positives, measure.groups)
        values.append(CellValue(*name, mean, low, high, defined, *counts, *difference))
    return values


def _difference(measure: Compared, pairs: Sequence[tuple[int, int]]) -> tuple[float | None, ...]:
    """Return the difference of paired runs, its interval over rows and that over seeds."""
    differences, resampled = [], []
    for ours, theirs in pairs:
        mine, first = measure.estimates[ours], measure.estimates[theirs]
        if mine.value is not None and first.value is not None:
            differences.append(mine.value - first.value)
            resampled.append(mine.resampled - first.resampled)
    mean, *over_seeds = t_interval(differences)
    interval = Estimate(mean, np.mean(resampled, axis=0)).interval() if resampled else None
    return mean, *(interval or (None, None)), *over_seeds


def t_interval(values: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Return the mean and its 95 % t interval; no interval for fewer than two values."""
    if not values:
        return None, None, None
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, None, None
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    half = float(stdtrit(len(values) - 1, 0.975)) * error
    return mean, mean - half, mean + half


def _cost(
    cell: str, grid: Grid, finished: Sequence[tuple[Run, Finished]], failed: Sequence[int]
) -> Cost:
    done = [run_done for run, run_done in finished if run.cell == cell]
    seconds = [
        1000 * run_done.inference_seconds / max(run_done.inference_windows, 1) for run_done in done
    ]
    remarks = []
    if any(run_done.tries > 1 for run_done in done):
        remarks.append("a run was interrupted and continued")
    return Cost(
        cell,
        grid.cells[cell],
        tuple(run_done.seed for run_done in done),
        done[0].parameters if done else None,
        tuple(run_done.steps for run_done in done),
        *t_interval([run_done.training_seconds for run_done in done]),
        *t_interval(seconds),
        device=", ".join(sorted({run_done.inference_device for run_done in done})) or None,
        failed_rows=sum(
            count for (run, _), count in zip(finished, failed, strict=True) if run.cell == cell
        ),
        remarks=tuple(remarks),
    )
