"""Statistics of weighted rows, and their bootstrap by group.

A resample is a weight for each row: how often its group was drawn. Each statistic is computed for T
sets of weights at once; the point value is the case T = 1 with all weights 1. n counts rows. NaN
means "undefined for these weights" and does not leave the measures.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from trivet.measures.curves import BINS, BoolArray, FloatArray, IntArray, bin_indices, tie_ends

Statistic = Callable[[FloatArray], FloatArray]
"""Weights [T, n] of n rows -> values [T]."""

# With fewer defined resamples, three documents or fewer hold a class: too few for an interval.
DEFINED_SHARE = 0.95
_BLOCK = 100  # resamples per call: 100 x 20,000 rows of float64 are 16 MB


def auroc(scores: FloatArray, positive: BoolArray) -> Statistic:
    """Area under the ROC curve: P(score of a positive > of a negative) + P(equal) / 2."""
    order, starts = _tied(scores)
    truth = positive[order]

    def statistic(weights: FloatArray) -> FloatArray:
        weights = weights[:, order]
        up = _sum_tied(weights * truth, starts)
        down = _sum_tied(weights * ~truth, starts)
        below = np.cumsum(down, axis=1) - down
        pairs = up.sum(axis=1) * down.sum(axis=1)
        return _ratio((up * (below + down / 2)).sum(axis=1), pairs)

    return statistic


def root_mean_square(errors: FloatArray) -> Statistic:
    """Root of the mean of the squared errors."""

    def statistic(weights: FloatArray) -> FloatArray:
        return np.sqrt(_ratio(weights @ errors**2, weights.sum(axis=1)))

    return statistic


def ratio(numerator: FloatArray, denominator: FloatArray, needed: FloatArray) -> Statistic:
    """Ratio of sums over all rows; undefined where the sum of ``needed`` is 0."""

    def statistic(weights: FloatArray) -> FloatArray:
        values = _ratio(weights @ numerator, weights @ denominator)
        return np.where(weights @ needed > 0, values, np.nan)

    return statistic


def best_f1(scores: FloatArray, positive: BoolArray) -> Statistic:
    """F1 of the positives at the threshold that is best for each set of weights."""

    def f1(hits: FloatArray, flagged: FloatArray, gold: FloatArray) -> FloatArray:
        best: FloatArray = _ratio(2 * hits, flagged + gold).max(axis=1)
        return best

    return _over_thresholds(scores, positive, f1)


def average_precision(scores: FloatArray, positive: BoolArray) -> Statistic:
    """Area under the precision-recall curve, as steps: each gain of recall times its precision."""

    def area(hits: FloatArray, flagged: FloatArray, gold: FloatArray) -> FloatArray:
        gains = np.diff(hits, axis=1, prepend=0.0) / gold
        total: FloatArray = (gains * np.nan_to_num(_ratio(hits, flagged))).sum(axis=1)
        return total

    return _over_thresholds(scores, positive, area)


def false_alarms_at_recall(scores: FloatArray, positive: BoolArray, recall: float) -> Statistic:
    """Share of the negatives flagged at the highest threshold that finds a share of the positives.

    It is undefined without a negative.
    """

    def share(hits: FloatArray, flagged: FloatArray, gold: FloatArray) -> FloatArray:
        wrong = flagged - hits
        # Floating-point slack, so that 9 of 10 counts as 0.9.
        enough = hits >= (recall - 1e-12) * gold
        least: FloatArray = np.where(enough, _ratio(wrong, wrong[:, -1:]), np.inf).min(axis=1)
        return least

    return _over_thresholds(scores, positive, share)


def _over_thresholds(
    scores: FloatArray,
    positive: BoolArray,
    reduce: Callable[[FloatArray, FloatArray, FloatArray], FloatArray],
) -> Statistic:
    """Return a statistic of hits and flagged [T, m] at all thresholds, and positives [T, 1]."""
    order, starts = _tied(-scores)
    truth = positive[order]

    def statistic(weights: FloatArray) -> FloatArray:
        weights = weights[:, order]
        hits = np.cumsum(_sum_tied(weights * truth, starts), axis=1)
        flagged = np.cumsum(_sum_tied(weights, starts), axis=1)
        gold = hits[:, -1:]
        some = gold[:, 0] > 0
        values = np.full(len(weights), np.nan)
        values[some] = reduce(hits[some], flagged[some], gold[some])
        return values

    return statistic


def calibration_error(row: IntArray, probs: FloatArray, positive: BoolArray, n: int) -> Statistic:
    """Expected calibration error in 15 bins of equal width: sum |share - mean prob| x bin share.

    ``row`` is the row of each of U units (responses or sentences), of n rows. *Shape of each:* [U].
    """
    cell = row * BINS + bin_indices(probs)
    gaps = np.bincount(cell, positive - probs, minlength=n * BINS).astype(np.float64, copy=False)
    counts, gaps = np.bincount(row, minlength=n), gaps.reshape(n, BINS)

    def statistic(weights: FloatArray) -> FloatArray:
        return _ratio(np.abs(weights @ gaps).sum(axis=1), weights @ counts)

    return statistic


@dataclass(frozen=True)
class Estimate:
    """Value of a statistic and its T resampled values; ``None`` and NaN where undefined."""

    value: float | None
    resampled: FloatArray

    def defined_share(self) -> float:
        """Return the share of resamples in which the statistic is defined."""
        return float(np.mean(np.isfinite(self.resampled))) if len(self.resampled) else 0.0

    def interval(self) -> tuple[float, float] | None:
        """Return the 2.5th and 97.5th percentile, or None where too few resamples are defined."""
        if self.value is None or self.defined_share() < DEFINED_SHARE:
            return None
        low, high = np.nanpercentile(self.resampled, (2.5, 97.5))
        return float(low), float(high)

    def less(self, other: Estimate) -> Estimate:
        """Return the difference to another estimate on the same resamples, which are paired."""
        value = None
        if self.value is not None and other.value is not None:
            value = self.value - other.value
        return Estimate(value, self.resampled - other.resampled)

    def only_defined(self) -> FloatArray:
        """Return T resampled values in which defined values replace the undefined ones.

        Equivalent to drawing again until the statistic is defined; needed for a mean over sets of
        which one has few positives.
        """
        defined = np.isfinite(self.resampled)
        if defined.all() or not defined.any():
            return self.resampled
        values = self.resampled.copy()
        values[~defined] = np.resize(self.resampled[defined], int((~defined).sum()))
        return values


class Draws:
    """T resamples of groups, with replacement: the same for the same groups, name and seed.

    Groups are sorted and rows without a verdict count as well. So the order of rows is irrelevant,
    and differences between models on the same rows are paired.
    """

    def __init__(self, groups: Sequence[str], name: str, resamples: int, seed: int = 0) -> None:
        names = sorted(set(groups))
        position = {group: i for i, group in enumerate(names)}
        self.groups: IntArray = np.array([position[group] for group in groups], dtype=np.int64)
        size = len(names)
        if size:
            random = np.random.default_rng([seed, zlib.crc32(name.encode())])
            drawn = random.integers(size, size=(resamples, size))
            flat = (drawn + np.arange(resamples)[:, None] * size).ravel()
            counts = np.bincount(flat, minlength=resamples * size)
        else:
            counts = np.zeros(0, dtype=np.int64)
        self._counts = counts.reshape(resamples, size).astype(np.uint16)

    def count(self, rows: IntArray) -> int:
        """Return the number of groups of some rows."""
        return len(np.unique(self.groups[rows]))

    def estimate(self, statistic: Statistic, rows: IntArray) -> Estimate:
        """Return a statistic of some rows; rows of a single group have NaN as resampled values."""
        resampled = np.full(len(self._counts), np.nan)
        if not len(rows):
            return Estimate(None, resampled)
        value = float(statistic(np.ones((1, len(rows))))[0])
        if self.count(rows) > 1:
            members = self.groups[rows]
            for start in range(0, len(resampled), _BLOCK):
                block = slice(start, start + _BLOCK)
                weights = self._counts[block][:, members].astype(np.float64)
                resampled[block] = statistic(weights)
        return Estimate(value if np.isfinite(value) else None, resampled)


def average(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean of the defined estimates, resampled within each of them.

    An estimate without a defined resample (a single group) is constant.
    """
    values, columns, moving = [], [], False
    for estimate in estimates:
        if estimate.value is None:
            continue
        column = estimate.only_defined()
        values.append(estimate.value)
        columns.append(np.where(np.isfinite(column), column, estimate.value))
        moving |= estimate.defined_share() > 0
    if not values:
        return Estimate(None, np.zeros(0))
    resampled = np.mean(columns, axis=0)
    return Estimate(
        float(np.mean(values)), resampled if moving else np.full_like(resampled, np.nan)
    )


def _tied(scores: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the rising order of scores and the start of each run of equal scores in it."""
    order = np.argsort(scores, kind="stable")
    return order, np.concatenate([[0], tie_ends(scores[order])[:-1] + 1])


def _sum_tied(values: FloatArray, starts: IntArray) -> FloatArray:
    sums: FloatArray = np.add.reduceat(values, starts, axis=1)
    return sums


def _ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    out = np.full(np.shape(numerator), np.nan)
    np.divide(numerator, denominator, out=out, where=denominator > 0)
    return out
