"""Means with 95 % intervals, robust to several answers to one question.

The intervals are Student's, from the cluster-robust variance: errors are summed within each group
of rows. n is the number of rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from trivet.measures.curves import FloatArray, IntArray

MIN_GROUPS = 6  # below, the series for Student's distribution is inaccurate


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean with its 95 % interval."""

    value: float | None  # None without values
    low: float | None  # None with fewer than MIN_GROUPS groups
    high: float | None
    n: int  # number of values


def mean_of(values: FloatArray, groups: IntArray, bounds: tuple[float, float] = (0.0, 1.0)) -> Mean:
    """Return the mean of the values [n] that are not NaN, with its interval clipped to ``bounds``.

    Rows of one group [n], numbered from 0, are dependent.
    """
    known = np.isfinite(values)
    found, own = values[known], groups[known]
    if not len(found):
        return Mean(None, None, None, 0)
    value = float(found.mean())
    errors = np.bincount(own, found - value)
    count = len(np.unique(own))
    if count < MIN_GROUPS:
        return Mean(value, None, None, len(found))
    error = math.sqrt(count / (count - 1) * float(errors @ errors)) / len(found)
    half_width = student(count - 1) * error
    low, high = max(bounds[0], value - half_width), min(bounds[1], value + half_width)
    return Mean(value, low, high, len(found))


def student(degrees: int) -> float:
    """Return the 97.5th percentile of Student's distribution for 5 degrees or more, to 0.2 %."""
    z = NormalDist().inv_cdf(0.975)
    # Cornish-Fisher series; Abramowitz and Stegun, 26.7.5.
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / degrees + second / degrees**2 + third / degrees**3
