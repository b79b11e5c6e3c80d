"""Which thresholds labelled rows justify, and in words when they justify none.

A threshold can be found on any rows, also on those that a model does not tell apart at all. So a
new one is taken only where the AUROC of what it judges is above .5 beyond doubt, and where it
reaches the precision that was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trivet.measures.intervals import Draws, auroc
from trivet.measures.thresholds import Column, DevScores, best_threshold, precise_threshold

_RESAMPLES = 500
_THINGS = {"adherence": "responses", "sentence": "sentences", "span": "words"}


@dataclass(frozen=True)
class UseThreshold:
    """The threshold of one use, and how well it does on the rows it was chosen on.

    Attributes:
        use: ``adherence``, ``sentence`` or ``span``.
        threshold: None where no threshold is justified; the bundle's stays then.
        why_not: Why, in words.
        precision: Of what is flagged, how much is unsupported (characters, for spans).
        recall: Of what is unsupported, how much is flagged.
        f1: Of both.
        flagged: How many responses, sentences or words are flagged.
        n: Of how many.
        auroc: How well support tells them apart; None with one class.
        low: Lower end of its 95 % interval, groups resampled; None without one.
        high: Upper end.
    """

    use: str
    threshold: float | None
    why_not: str
    precision: float | None
    recall: float | None
    f1: float | None
    flagged: int
    n: int
    auroc: float | None
    low: float | None
    high: float | None

    def words(self) -> str:
        """Return the outcome in one sentence."""
        if self.threshold is None:
            return f"{self.use}: no clean separation, {self.why_not}; the threshold is kept"
        return (
            f"{self.use}: threshold {self.threshold:.4f}, precision {self.precision:.3f}, recall "
            f"{self.recall:.3f}, F1 {self.f1:.3f}, {self.flagged} of {self.n} "
            f"{_THINGS[self.use]} flagged"
        )


def justified_thresholds(
    columns: Mapping[str, Column], scores: Sequence[DevScores], least_precision: float | None
) -> list[UseThreshold]:
    """Choose a threshold for each use, or say why there is none.

    Args:
        columns: Of ``threshold_columns``.
        scores: What they were made of.
        least_precision: The precision that what is flagged must reach; None for the best F1.
    """
    groups = [f"{one.example.source}\n{one.example.group}" for one in scores]
    return [_judge(use, column, groups, least_precision) for use, column in columns.items()]


def _judge(
    use: str, column: Column, groups: Sequence[str], least_precision: float | None
) -> UseThreshold:
    support, unsupported, size = column.support, column.unsupported, column.size
    n, wrong = len(support), unsupported > 0
    if not wrong.any() or wrong.all():
        why = f"the labels of {column.examples} examples hold one class or none"
        return UseThreshold(use, None, why, None, None, None, 0, n, None, None, None)
    draws = Draws([groups[place] for place in column.example], use, _RESAMPLES, seed=0)
    area = draws.estimate(auroc(-support, wrong), np.arange(n))
    interval = area.interval()
    low, high = interval or (None, None)
    if least_precision is None:
        found = best_threshold(support, unsupported, size)
    else:
        found = precise_threshold(support, unsupported, least_precision, size)
    why = ""
    if interval is None:
        why = f"AUROC {area.value:.3f} has no interval: too few groups"
    elif interval[0] <= 0.5:
        why = f"AUROC {area.value:.3f} [{interval[0]:.3f}, {interval[1]:.3f}] includes .5 or less"
    elif found is None:
        why = (
            "nothing can be flagged"
            if least_precision is None
            else f"no threshold has a precision of {least_precision:g}"
        )
    if why or found is None:
        return UseThreshold(use, None, why, None, None, None, 0, n, area.value, low, high)
    flagged = support < found.threshold
    hits, amount = unsupported[flagged].sum(), size[flagged].sum()
    return UseThreshold(
        use=use,
        threshold=found.threshold,
        why_not="",
        precision=float(hits / amount),
        recall=float(hits / unsupported.sum()),
        f1=found.f1,
        flagged=int(flagged.sum()),
        n=n,
        auroc=area.value,
        low=low,
        high=high,
    )


def same_share(before: Column, threshold: float, after: Column) -> float:
    """Return the threshold that flags as many things after a calibration as another did before."""
    flagged = int((before.support < threshold).sum())
    ranked = np.sort(after.support)
    if not flagged:
        return float(min(threshold, ranked[0])) if len(ranked) else threshold
    above = ranked[flagged] if flagged < len(ranked) else 1.0
    middle = (ranked[flagged - 1] + above) / 2
    return float(middle if middle > ranked[flagged - 1] else above)
