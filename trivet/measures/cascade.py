"""Two thresholds that leave the unsure answers to people, or to a larger judge.

An answer whose support reaches the upper one passes, one below the lower one is flagged, the rest
is left. Each threshold decides as many answers as a precision allows. One further error among the
decided answers is counted in, so that a precision of 90 % needs 9 decided answers, 95 % needs 19,
99 % needs 99: fewer cannot show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trivet.measures.curves import BoolArray, FloatArray, IntArray
from trivet.measures.intervals import Draws, Statistic
from trivet.measures.label_check import JudgedAnswers, shortest_threshold

PRECISIONS = (0.9, 0.95, 0.99)
_RESAMPLES = 1000
_SLACK = 1e-9  # of floating point, so that 1 of 10 is a share of .1


@dataclass(frozen=True)
class Decided:
    """The answers that pass, are flagged or are left, and their share of all."""

    threshold: float | None  # None decides no answer
    count: int
    wrong: int  # of them, by their labels
    share: float
    interval: tuple[float, float] | None  # of the share; resamples choose the threshold again


@dataclass(frozen=True)
class CascadeStep:
    """Answers that pass, are flagged and are left at one precision."""

    precision: float
    passed: Decided  # support of the threshold or more
    flagged: Decided  # support below the threshold
    left: Decided


def cascade(answers: JudgedAnswers, precisions: Sequence[float] = PRECISIONS) -> list[CascadeStep]:
    """Return how many answers two thresholds decide at each precision of passing and of flagging.

    Intervals are 95 %, by a bootstrap over source documents.
    """
    draws = Draws([row.example.group for row in answers.rows], "cascade", _RESAMPLES)
    return [_step(answers, draws, precision) for precision in precisions]


def _step(answers: JudgedAnswers, draws: Draws, precision: float) -> CascadeStep:
    support, wrong = answers.support, answers.wrong
    # A support of exactly 1 is never flagged, as no threshold is above it.
    supports, rank = np.unique(np.append(support, 1.0), return_inverse=True)
    rank = rank[:-1]
    ranked = _Ranked(rank, wrong, len(supports) - 1, precision)
    low, high = ranked.split(np.ones(len(support)))
    flagged, passed = rank < low, rank >= high

    def threshold(rank_at: int, chosen: BoolArray) -> float | None:
        if not chosen.any():
            return None
        return shortest_threshold(float(supports[rank_at]), support)

    def decided(side: int, chosen: BoolArray, bound: float | None) -> Decided:
        interval = draws.estimate(ranked.share(side), np.arange(len(support))).interval()
        wrongs = int((chosen & wrong).sum())
        return Decided(bound, int(chosen.sum()), wrongs, float(chosen.mean()), interval)

    return CascadeStep(
        precision,
        passed=decided(2, passed, threshold(high, passed)),
        flagged=decided(0, flagged, threshold(low, flagged)),
        left=decided(1, ~(passed | flagged), None),
    )


class _Ranked:
    """Answers by the rank of their support, split in flagged, left and passed ones."""

    def __init__(self, rank: IntArray, wrong: BoolArray, last: int, precision: float) -> None:
        self._rank, self._wrong, self._last = rank, wrong, last
        self._allowed = 1 - precision

    def split(self, weights: FloatArray) -> tuple[int, int]:
        """Return the first rank that is not flagged, and the first that passes."""
        below, right_below, above, wrong_above = self._sums(weights)
        flags = np.flatnonzero(self._holds(right_below, below))
        passes = np.flatnonzero(self._holds(wrong_above, above))
        low, high = int(flags.max(initial=0)), int(passes.min(initial=self._last + 1))
        if low > high:  # both could decide the answers between: one threshold, of fewest errors
            both = np.intersect1d(flags, passes)
            if len(both):
                low = high = int(both[np.argmin((right_below + wrong_above)[both])])
            else:
                low = int(flags[flags <= high].max(initial=0))
        return low, high

    def share(self, side: int) -> Statistic:
        """Return the share of flagged (0), left (1) or passed (2) answers as a statistic."""

        def share(weights: FloatArray) -> FloatArray:
            values = []
            for weight in weights:
                below = np.append(self._sums(weight)[0], weight.sum())
                bounds = below[[0, *self.split(weight), -1]]
                values.append(np.diff(bounds)[side] / weight.sum())
            return np.array(values)

        return share

    def _sums(self, weights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return all and right ones below each rank, all and wrong ones from it on. *Each:* [m]."""
        every, wrong = np.zeros((2, self._last + 1))
        np.add.at(every, self._rank, weights)
        np.add.at(wrong, self._rank, weights * self._wrong)
        below, wrong_below = np.cumsum(every) - every, np.cumsum(wrong) - wrong
        return below, below - wrong_below, every.sum() - below, wrong.sum() - wrong_below

    def _holds(self, errors: FloatArray, decided: FloatArray) -> BoolArray:
        holds: BoolArray = errors + 1 <= self._allowed * (decided + 1) + _SLACK
        return holds
