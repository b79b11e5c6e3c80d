"""One measure of some rows: what is compared, its value over resamples, the figure it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trivet.measures.figures import Figure
from trivet.measures.intervals import DEFINED_SHARE, Draws, Estimate, IntArray
from trivet.measures.predictions import Judged
from trivet.measures.protocols import Sample, samples


@dataclass(frozen=True)
class Measured:
    """A sample, the value of its statistic with every resample, and its number of groups."""

    sample: Sample
    estimate: Estimate
    groups: int


def draws_of(rows: Sequence[Judged], name: str, resamples: int, seed: int) -> Draws:
    """Return resamples of the groups of some rows; ``name`` is what they are drawn for."""
    return Draws([row.example.group for row in rows], name, resamples, seed)


def measured_rows(
    rows: Sequence[Judged], draws: Draws, positions: IntArray | None = None
) -> dict[str, Measured]:
    """Take every measure that the labels of some rows allow.

    Args:
        rows: What is measured.
        draws: Resamples of these rows, or of more rows that these are a part of.
        positions: [n] where the rows stand among those drawn from; by default in order.
    """
    positions = np.arange(len(rows)) if positions is None else positions
    found = {}
    for sample in samples(rows):
        place = positions[sample.rows]
        estimate = draws.estimate(sample.statistic, place)
        found[sample.measure] = Measured(sample, estimate, draws.count(place))
    return found


def to_figure(
    source: str, measured: Measured, generator: str | None = None, length: str | None = None
) -> Figure:
    """Return a measure as a figure; where something is undefined, the note says why."""
    sample, estimate = measured.sample, measured.estimate
    interval = estimate.interval()
    notes = [sample.note] if sample.note else []
    if estimate.value is None:
        reason = sample.undefined or "it has no value"
        notes = ["undefined: " + (reason if len(sample.rows) else "every row failed")]
    elif interval is None:
        notes.append(_no_interval(measured.groups, estimate))
    low, high = interval or (None, None)
    return Figure(
        measure=sample.measure,
        source=source,
        value=estimate.value,
        low=low,
        high=high,
        n=len(sample.rows),
        positives=sample.positives,
        groups=measured.groups,
        failed=sample.failed,
        note="; ".join(notes) or None,
        generator=generator,
        length=length,
    )


def _no_interval(groups: int, estimate: Estimate) -> str:
    if groups < 2:
        return "no interval: all rows come from one group"
    return (
        f"no interval: defined in {estimate.defined_share():.0%} of the resamples, "
        f"less than {DEFINED_SHARE:.0%}"
    )
