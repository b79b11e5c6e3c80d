"""Statistics of weighted rows, and their bootstrap by group.

A resample is a weight for each row: how often its group was drawn. So each statistic is written
once, for T sets of weights at a time, and the point value is the case of T = 1 with all weights 1.
Here n counts rows and T resamples. NaN means "undefined for these weights" inside this file and
never leaves it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trivet.measures.curves import BINS, bin_indices, tie_ends

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Statistic = Callable[[FloatArray], FloatArray]
"""Weights [T, n] of n rows -> values [T]."""

# Less than this share of defined resamples means three documents or fewer hold a class: an interval
# over what is left would be a statement about luck.
DEFINED_SHARE = 0.95
_BLOCK = 100  # resamples at a time: 100 x 20,000 rows of float64 are 16 MB


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
    """Ratio of sums over all rows; undefined where the sum of ``needed`` is 0.

    Precision, recall and F1 of hits, predicted and gold amounts are such ratios: hits / predicted,
    hits / gold and 2 hits / (predicted + gold).
    """

    def statistic(weights: FloatArray) -> FloatArray:
        values = _ratio(weights @ numerator, weights @ denominator)
        return np.where(weights @ needed > 0, values, np.nan)

    return statistic


def best_f1(scores: FloatArray, positive: BoolArray) -> Statistic:
    """F1 of the positives at the threshold that is best for the very weights at hand."""
    order, starts = _tied(-scores)
    truth = positive[order]

    def statistic(weights: FloatArray) -> FloatArray:
        weights = weights[:, order]
        hits = np.cumsum(_sum_tied(weights * truth, starts), axis=1)
        flagged = np.cumsum(_sum_tied(weights, starts), axis=1)
        gold = hits[:, -1:]
        values = _ratio(2 * hits, flagged + gold).max(axis=1)
        return np.where(gold[:, 0] > 0, values, np.nan)

    return statistic


def calibration_error(row: IntArray, probs: FloatArray, positive: BoolArray, n: int) -> Statistic:
    """Expected calibration error in 15 bins of equal width: sum |share - mean prob| x bin share.

    Args:
        row: [U] which of the n rows each judged unit (a response, a sentence) belongs to.
        probs: [U] its probability, in [0, 1].
        positive: [U] whether it is positive.
        n: How many rows there are.
    """
    place = row * BINS + bin_indices(probs)
    gaps = np.bincount(place, positive - probs, minlength=n * BINS).reshape(n, BINS)
    counts = np.bincount(row, minlength=n)

    def statistic(weights: FloatArray) -> FloatArray:
        return _ratio(np.abs(weights @ gaps).sum(axis=1), weights @ counts)

    return statistic


@dataclass(frozen=True)
class Estimate:
    """A value and the same statistic of every resample; ``None`` and NaN where undefined."""

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

    def only_defined(self) -> FloatArray:
        """Return T resampled values, the undefined ones replaced by defined ones in turn.

        This is what drawing again until the statistic is defined would give; it is needed where
        several sets are averaged and one of them has few positives.
        """
        defined = np.isfinite(self.resampled)
        if defined.all() or not defined.any():
            return self.resampled
        values = self.resampled.copy()
        values[~defined] = np.resize(self.resampled[defined], int((~defined).sum()))
        return values


class Draws:
    """Resamples of groups, with replacement: the same for the same groups, name and seed.

    The groups are taken in the order of their names, and every row counts, judged or not. So the
    order of rows changes nothing, and two models measured on the same rows meet the same resamples:
    their differences are paired.

    Args:
        groups: [n] the group of each row.
        name: What is resampled, usually the source; different names draw differently.
        resamples: How many, T.
        seed: Any non-negative integer.
    """

    def __init__(self, groups: Sequence[str], name: str, resamples: int, seed: int) -> None:
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
        """Return how many groups some rows come from."""
        return len(np.unique(self.groups[rows]))

    def estimate(self, statistic: Statistic, rows: IntArray) -> Estimate:
        """Return a statistic of some of the rows, and its resampled values.

        Rows of a single group leave nothing to resample: every resampled value is NaN then.
        """
        resampled = np.full(len(self._counts), np.nan)
        if not len(rows):
            return Estimate(None, resampled)
        value = float(statistic(np.ones((1, len(rows))))[0])
        if self.count(rows) > 1:
            place = self.groups[rows]
            for start in range(0, len(resampled), _BLOCK):
                block = slice(start, start + _BLOCK)
                weights = self._counts[block][:, place].astype(np.float64)
                resampled[block] = statistic(weights)
        return Estimate(value if np.isfinite(value) else None, resampled)


def average(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean of the estimates that are defined, resampled within each of them.

    An estimate without any defined resample (a single group) stands still at its value.
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
    """Return the rising order of scores [n] and where each run of equal scores starts in it."""
    order = np.argsort(scores, kind="stable")
    return order, np.concatenate([[0], tie_ends(scores[order])[:-1] + 1])


def _sum_tied(values: FloatArray, starts: IntArray) -> FloatArray:
    sums: FloatArray = np.add.reduceat(values, starts, axis=1)
    return sums


def _ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    out = np.full(np.shape(numerator), np.nan)
    np.divide(numerator, denominator, out=out, where=denominator > 0)
    return out
