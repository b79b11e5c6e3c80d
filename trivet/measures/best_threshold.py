"""The threshold on support with the best F1 of flagged items; here, since measures report it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trivet.measures.curves import FloatArray, tie_ends

DEFAULT_THRESHOLD = 0.5
"""Threshold where no rows chose one."""


@dataclass(frozen=True)
class BestThreshold:
    """A threshold on support, and the F1 of flagging what is below it."""

    threshold: float
    f1: float


def best_threshold(
    support: FloatArray, unsupported: FloatArray, size: FloatArray | None = None
) -> BestThreshold | None:
    """Return the threshold on support with the best F1 of the flagged items.

    Args:
        support: Support in [0, 1]. *Shape:* [n].
        unsupported: Unsupported amount of each item. *Shape:* [n].
        size: Amount flagged with each item, >= unsupported; 1 by default. *Shape:* [n].

    Returns:
        The threshold, half way between the two values it separates and at most 1, so that a support
        of exactly 1 is never flagged; among equals the one that flags least. None if nothing or
        everything is unsupported.
    """
    ranked = _flagged_below(support, unsupported, size)
    if ranked is None:
        return None
    f1 = np.where(ranked.flaggable, 2 * ranked.hits / (ranked.flagged + ranked.gold), -1.0)
    best = int(np.argmax(f1))
    if f1[best] < 0:
        return None
    return BestThreshold(ranked.threshold(best), float(f1[best]))


@dataclass(frozen=True)
class _Flagged:
    """Flagged amounts for each possible threshold, rising. *Shape of each:* [m]."""

    below: FloatArray  # the highest support that is flagged
    hits: FloatArray
    flagged: FloatArray
    gold: float

    @property
    def flaggable(self) -> npt.NDArray[np.bool_]:
        """Whether a threshold of at most 1 can flag that much."""
        return self.below < 1

    def threshold(self, index: int) -> float:
        """Return the middle between the flagged and the next higher support."""
        below = self.below[index]
        above = self.below[index + 1] if index + 1 < len(self.below) else 1.0
        middle = (below + above) / 2
        # The middle of two adjacent floating-point numbers may round down to the lower one.
        return float(middle if middle > below else above)


def _flagged_below(
    support: FloatArray, unsupported: FloatArray, size: FloatArray | None
) -> _Flagged | None:
    """Rank by support; None if nothing or everything is unsupported."""
    size = np.ones(len(support)) if size is None else size
    gold = unsupported.sum()
    if not 0 < gold < size.sum():
        return None
    order = np.argsort(support, kind="stable")
    ranked = support[order].astype(np.float64)
    ends = tie_ends(ranked)
    hits, flagged = np.cumsum(unsupported[order])[ends], np.cumsum(size[order])[ends]
    return _Flagged(ranked[ends], hits, flagged, float(gold))
