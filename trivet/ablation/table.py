"""The one table of a grid: each measure of each cell over seeds, each cell against the first.

- A cell's value is the mean over its seeds, with Student's t interval of that mean: how much a
  result depends on the seed. One seed has no interval.
- A difference is the mean over the seeds that both cells have finished. ``rows_low`` to
  ``rows_high`` is its paired bootstrap over source documents: how much it depends on the test rows.
  ``seeds_low`` to ``seeds_high`` is the t interval of the paired differences over seeds.
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
from trivet.ablation.run import SCORES, Finished, read_done, state_of
from trivet.ablation.scores import read_scores
from trivet.measures.intervals import DEFINED_SHARE
from trivet.records import DataError


@dataclass(frozen=True)
class Value:
    """One measure of one cell; an end of an interval is None where there is none.

    Attributes:
        test: The label of the test entry.
        source: A data set or a whole family, perhaps with a length bucket.
        overall: Whether it is the figure of a family.
        measure: Its name.
        cell: Whose.
        mean: Over seeds; None where it is undefined.
        low: Lower end of the 95 % t interval of the mean.
        high: Upper end.
        seeds: The value of each seed that is finished, by seed.
        n: How many rows.
        positives: How many of them hold the positive class.
        groups: How many source documents.
        difference: To the first cell, over the seeds that both have; None for the first.
        rows_low: Lower end of the 95 % interval of the difference, source documents resampled.
        rows_high: Upper end.
        seeds_low: Lower end of the 95 % t interval of the difference over seeds.
        seeds_high: Upper end.
    """

    test: str
    source: str
    overall: bool
    measure: str
    cell: str
    mean: float | None
    low: float | None
    high: float | None
    seeds: dict[int, float]
    n: int
    positives: int | None
    groups: int
    difference: float | None = None
    rows_low: float | None = None
    rows_high: float | None = None
    seeds_low: float | None = None
    seeds_high: float | None = None


@dataclass(frozen=True)
class Cost:
    """What a cell costs; seconds are means over seeds.

    Attributes:
        cell: Its name.
        overrides: What it differs in.
        seeds: Which are finished.
        parameters: Of the whole model.
        steps: Of the optimiser, of each seed.
        training_seconds: Wall clock, checks of dev included.
        training_low: Lower end of the 95 % t interval.
        training_high: Upper end.
        inference_seconds: In the model, for 1000 windows of the test rows.
        inference_low: Lower end of the 95 % t interval.
        inference_high: Upper end.
        device: Where the test rows were judged.
        failed_rows: Test rows without a verdict, of all seeds together.
        remarks: What makes its seconds hard to compare.
    """

    cell: str
    overrides: tuple[str, ...]
    seeds: tuple[int, ...]
    parameters: int | None = None
    steps: tuple[int | None, ...] = ()
    training_seconds: float | None = None
    training_low: float | None = None
    training_high: float | None = None
    inference_seconds: float | None = None
    inference_low: float | None = None
    inference_high: float | None = None
    device: str | None = None
    failed_rows: int = 0
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """All that is known of a grid.

    Attributes:
        name: Of the grid.
        command: What was typed.
        cells: In order; the first is what the others are compared with.
        seeds: What the grid asks for.
        missing: Runs that are not finished, ``CELL/seedN``.
        costs: One a cell.
        values: One a cell, for every measure of every source.
    """

    name: str
    command: str
    cells: tuple[str, ...]
    seeds: tuple[int, ...]
    missing: tuple[str, ...]
    costs: tuple[Cost, ...]
    values: tuple[Value, ...]

    def to_json(self) -> str:
        """Return everything as JSON text; never NaN."""
        return json.dumps(
            {**dataclasses.asdict(self), "higher_is_better": MEASURES}, indent=2, allow_nan=False
        )


def tabulate(grid: Grid, command: str = "trivet ablate", resamples: int = 1000) -> Table:
    """Compare what is finished of a grid.

    Args:
        grid: The grid; nothing is run.
        command: What was typed.
        resamples: Of the source documents.

    Raises:
        ConfigError: A run was made with another configuration than the grid now says.
        DataError: Nothing is finished yet, or what is stored is damaged or not of the same rows.
    """
    found = [
        (run, done)
        for run in grid.runs
        if state_of(run, grid.test) == "finished" and (done := read_done(run)) is not None
    ]
    if not found:
        raise DataError(f"{grid.folder}: no run is finished, there is nothing to compare yet")
    scores = [read_scores(run.folder / SCORES) for run, _ in found]
    compared = compare_runs(scores, grid.lengths, resamples)
    failed = [sum(row.failed is not None for row in rows) for rows in scores]
    runs = [run for run, _ in found]
    return Table(
        name=grid.name,
        command=command,
        cells=tuple(grid.cells),
        seeds=grid.seeds,
        missing=tuple(run.name for run in grid.runs if run not in runs),
        costs=tuple(_cost(cell, grid, found, failed) for cell in grid.cells),
        values=tuple(
            value for one in compared for value in values_of(one, runs, tuple(grid.cells))
        ),
    )


def values_of(one: Compared, runs: Sequence[Run], cells: Sequence[str]) -> list[Value]:
    """Return a measure of each cell that has a finished run, in the order of the cells."""
    place = {(run.cell, run.seed): i for i, run in enumerate(runs)}
    values = []
    for cell in cells:
        seeds = {seed: i for (name, seed), i in place.items() if name == cell}
        if not seeds:
            continue
        points = {seed: one.estimates[i].value for seed, i in seeds.items()}
        defined = {seed: point for seed, point in points.items() if point is not None}
        mean, low, high = t_interval(list(defined.values()))
        value = Value(
            test=one.test,
            source=one.source,
            overall=one.overall,
            measure=one.measure,
            cell=cell,
            mean=mean,
            low=low,
            high=high,
            seeds=defined,
            n=one.n,
            positives=one.positives,
            groups=one.groups,
        )
        pairs = [(i, place[cells[0], s]) for s, i in seeds.items() if (cells[0], s) in place]
        if cell != cells[0] and pairs:
            value = _with_difference(value, one, pairs)
        values.append(value)
    return values


def _with_difference(value: Value, one: Compared, pairs: Sequence[tuple[int, int]]) -> Value:
    """Add the difference of paired runs, and both of its intervals."""
    differences, resampled = [], []  # [T] each, NaN where undefined, for both runs alike
    for ours, theirs in pairs:
        mine, first = one.estimates[ours], one.estimates[theirs]
        if mine.value is not None and first.value is not None:
            differences.append(mine.value - first.value)
            resampled.append(mine.resampled - first.resampled)
    mean, seeds_low, seeds_high = t_interval(differences)
    rows_low = rows_high = None
    if resampled:
        columns = np.mean(resampled, axis=0)
        if np.isfinite(columns).mean() >= DEFINED_SHARE:
            rows_low, rows_high = map(float, np.nanpercentile(columns, (2.5, 97.5)))
    return dataclasses.replace(
        value,
        difference=mean,
        rows_low=rows_low,
        rows_high=rows_high,
        seeds_low=seeds_low,
        seeds_high=seeds_high,
    )


def t_interval(values: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Return the mean and its 95 % interval by Student's t; no interval for fewer than two."""
    if not values:
        return None, None, None
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, None, None
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    half = float(stdtrit(len(values) - 1, 0.975)) * error
    return mean, mean - half, mean + half


def _cost(
    cell: str, grid: Grid, found: Sequence[tuple[Run, Finished]], failed: Sequence[int]
) -> Cost:
    done = [one for run, one in found if run.cell == cell]
    nothing = Cost(cell, grid.cells[cell], tuple(one.seed for one in done))
    if not done:
        return nothing
    training = t_interval([one.training_seconds for one in done])
    inference = t_interval(
        [1000 * one.inference_seconds / max(one.inference_windows, 1) for one in done]
    )
    remarks = []
    if any(one.tries > 1 for one in done):
        remarks.append("a run was broken off and went on")
    if any(one.jobs > 1 for one in done):
        remarks.append(f"up to {max(one.jobs for one in done)} runs shared the machine")
    return dataclasses.replace(
        nothing,
        parameters=done[0].parameters,
        steps=tuple(one.steps for one in done),
        training_seconds=training[0],
        training_low=training[1],
        training_high=training[2],
        inference_seconds=inference[0],
        inference_low=inference[1],
        inference_high=inference[2],
        device=", ".join(sorted({one.inference_device for one in done})),
        failed_rows=sum(
            count for (run, _), count in zip(found, failed, strict=True) if run.cell == cell
        ),
        remarks=tuple(remarks),
    )
