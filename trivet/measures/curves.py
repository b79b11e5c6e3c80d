"""ROC points, reliability bins and calibration error, and the ranks and bins that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

BINS = 15
"""Number of bins of equal width of every calibration error."""


@dataclass(frozen=True)
class ReliabilityBin:
    """Predictions of similar probability."""

    low: float
    high: float  # excluded unless it is 1
    probability: float  # mean predicted
    share: float  # of the predictions that are true, in [0, 1]
    count: int  # predictions, at least one


def bin_indices(probabilities: FloatArray) -> IntArray:
    """Return the bin of each probability: [b / BINS, (b + 1) / BINS), and 1 in the last."""
    return np.minimum((probabilities * BINS).astype(np.int64), BINS - 1)


def tie_ends(ranked: FloatArray) -> IntArray:
    """Return the last position of each run of equal values in a sorted array."""
    return np.flatnonzero(np.concatenate([ranked[1:] != ranked[:-1], [True]]))


def reliability_bins(
    probabilities: FloatArray, truths: npt.NDArray[np.generic]
) -> list[ReliabilityBin]:
    """Group predictions into bins of equal width; empty bins are left out.

    The truths are labels, or shares of true labels. *Shapes:* [n], [n].
    """
    index = bin_indices(probabilities)
    total = np.bincount(index, minlength=BINS)
    mean = np.bincount(index, probabilities, minlength=BINS)
    share = np.bincount(index, truths.astype(float), minlength=BINS)
    return [
        ReliabilityBin(
            low=b / BINS,
            high=(b + 1) / BINS,
            probability=float(mean[b] / total[b]),
            share=float(share[b] / total[b]),
            count=int(total[b]),
        )
        for b in range(BINS)
        if total[b] > 0
    ]


def expected_calibration_error(bins: Sequence[ReliabilityBin]) -> float | None:
    """Return the weighted mean of |share - probability| over bins; None without predictions."""
    total = sum(bar.count for bar in bins)
    gaps = sum(bar.count * abs(bar.share - bar.probability) for bar in bins)
    return gaps / total if total else None


def roc_points(
    score: FloatArray, positive: npt.NDArray[np.generic]
) -> tuple[FloatArray, FloatArray]:
    """Return false and true positive rates over all thresholds, from (0, 0) to (1, 1).

    Scores [n] are higher for positives; there is a positive and a negative. Equal scores are one
    point, so a tie is a slope.
    """
    order = np.argsort(-score, kind="stable")
    truth, ends = positive.astype(bool)[order], tie_ends(score[order])
    hits = np.concatenate([[0], np.cumsum(truth)[ends]])
    misses = np.concatenate([[0], np.cumsum(~truth)[ends]])
    return misses / misses[-1], hits / hits[-1]
