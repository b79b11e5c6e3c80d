"""Means over rows with their intervals; rows of one question count as one draw.

n counts rows here. An interval is Student's, of a mean whose errors are summed within groups (the
cluster-robust variance): several answers to one question, by several models, are not independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# Student's distribution is written as the normal one with corrections, which needs this many
# groups to be right to three digits; with fewer an interval would say little anyway.
LEAST_GROUPS = 6


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean with its 95 % interval.

    Attributes:
        value: ``None`` where no row has the score.
        low: Lower end; ``None`` where there are too few groups.
        high: Upper end.
        n: How many rows it is the mean of.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int


def mean_of(values: FloatArray, groups: IntArray, bounds: tuple[float, float] = (0.0, 1.0)) -> Mean:
    """Return the mean of the values that are there.

    Args:
        values: NaN where a row has none. *Shape:* [n].
        groups: Rows of one number are not independent; numbers from 0. *Shape:* [n].
        bounds: What a value can be; the interval stays within.
    """
    there = np.isfinite(values)
    found, own = values[there], groups[there]
    if not len(found):
        return Mean(None, None, None, 0)
    value = float(found.mean())
    errors = np.bincount(own, found - value)
    count = len(np.unique(own))
    if count < LEAST_GROUPS:
        return Mean(value, None, None, len(found))
    error = math.sqrt(count / (count - 1) * float(errors @ errors)) / len(found)
    reach = student(count - 1) * error
    low, high = bounds
    return Mean(value, max(low, value - reach), min(high, value + reach), len(found))


def student(degrees: int) -> float:
    """Return the 97.5th percentile of Student's distribution, right to .2 % from 5 degrees on.

    Raises:
        ValueError: There are fewer than 5 degrees of freedom.
    """
    if degrees < LEAST_GROUPS - 1:
        raise ValueError(f"{degrees} degrees of freedom; the series needs {LEAST_GROUPS - 1}")
    z = NormalDist().inv_cdf(0.975)
    # Cornish and Fisher's series; Abramowitz and Stegun, 26.7.5.
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / degrees + second / degrees**2 + third / degrees**3
