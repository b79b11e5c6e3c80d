"""Paired comparison of two bundles on the same labelled rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trivet.ablation.comparison import MEASURES, compare_runs
from trivet.ablation.scores import RowScore, score_row
from trivet.measures.intervals import Estimate
from trivet.measures.predictions import Prediction

Outcome = Literal["better", "worse", "no difference shown"]
# Its threshold is chosen on the measured rows, so it says nothing about a new answer.
_LEFT_OUT = "hallucination_f1_best_threshold"


@dataclass(frozen=True)
class Change:
    """One measure before and after, and their paired difference."""

    measure: str  # name, as in ``trivet.measures.metrics``
    before: float | None  # value of the first bundle; None where undefined
    after: float | None  # value of the second
    # 2.5th percentile of ``after - before`` over resampled documents; None without an interval
    low: float | None
    high: float | None  # 97.5th percentile
    n: int  # rows measured
    positives: int | None  # rows of the positive class; None without classes
    documents: int  # source documents of these rows

    @property
    def outcome(self) -> Outcome:
        """Side of 0 on which the whole interval lies."""
        if self.low is None or self.high is None or self.low <= 0 <= self.high:
            return "no difference shown"
        return "better" if (self.low > 0) == MEASURES[self.measure] else "worse"


def compare_bundles(before: Sequence[Prediction], after: Sequence[Prediction]) -> list[Change]:
    """Return each measure with a known truth, over the rows that both bundles evaluated.

    Sources are pooled: together they are the domain. A row without a verdict of one bundle is left
    out for both.
    """
    changes = []
    for one in compare_runs([_scores(before), _scores(after)]):
        if one.measure == _LEFT_OUT:
            continue
        first, second = one.estimates
        both = first.value is not None and second.value is not None
        value = (second.value or 0) - (first.value or 0) if both else None
        interval = Estimate(value, second.resampled - first.resampled).interval()
        low, high = interval or (None, None)
        changes.append(
            Change(
                one.measure, first.value, second.value, low, high, one.n, one.positives, one.groups
            )
        )
    return changes


def is_better(changes: Sequence[Change]) -> bool:
    """Tell whether at least one measure is better and none is worse."""
    outcomes = {change.outcome for change in changes}
    return "better" in outcomes and "worse" not in outcomes


def _scores(rows: Sequence[Prediction]) -> list[RowScore]:
    found = (score_row("", i, row.example, row.evaluation, 0) for i, row in enumerate(rows))
    return [replace(score, source="all") for score in found]
