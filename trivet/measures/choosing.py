"""Choice between two bundles by dev sets of several domains.

A bundle is kept only if the mean AUROC over the sets rises and none of them falls by more than .01:
dev rows of the data that it was trained on chose wrongly too often. Beside them stands counting:
the share of the response's content words that the contexts have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trivet.labelled.grouping import document
from trivet.measures.curves import IntArray
from trivet.measures.intervals import Draws, Estimate, auroc, average
from trivet.measures.predictions import Prediction, counted_probs, response_units

LARGEST_FALL = 0.01
MEAN = "mean"
_RESAMPLES = 1000


@dataclass(frozen=True)
class SetChange:
    """AUROC of hallucination on one set by counting words and by two bundles."""

    name: str
    n: int  # responses with a label and a verdict of both
    positives: int  # of them hallucinated
    counting: Estimate
    first: Estimate
    second: Estimate

    @property
    def change(self) -> Estimate:
        """Second less first; resampled documents are paired."""
        return self.second.less(self.first)


def compare_sets(
    sets: Mapping[str, tuple[Sequence[Prediction], Sequence[Prediction]]],
) -> list[SetChange]:
    """Return the AUROC on each set of rows, judged by two bundles in the same order, and the mean.

    A row without a verdict of one bundle is left out for both.
    """
    changes = [_compare(name, *pair) for name, pair in sets.items()]
    means = (
        average([getattr(one, part) for one in changes]) for part in ("counting", "first", "second")
    )
    n, positives = sum(one.n for one in changes), sum(one.positives for one in changes)
    return [*changes, SetChange(MEAN, n, positives, *means)]


def is_kept(changes: Sequence[SetChange]) -> bool:
    """Tell whether the second bundle is kept: the mean rises, and no set falls by over .01."""
    *sets, mean = (one.change.value for one in changes)
    return (mean or 0) > 0 and all((value or 0) >= -LARGEST_FALL for value in sets)


def _compare(name: str, first: Sequence[Prediction], second: Sequence[Prediction]) -> SetChange:
    groups = [document(row.example) for row in first]
    draws = Draws(groups, name, _RESAMPLES)
    one, other = response_units(first), response_units(second)
    rows: IntArray = np.intersect1d(one.rows, other.rows)
    before, after = (each.probs[np.isin(each.rows, rows)] for each in (one, other))
    positive = one.positive[np.isin(one.rows, rows)]
    counted = counted_probs(first, rows)
    estimates = (draws.estimate(auroc(each, positive), rows) for each in (counted, before, after))
    return SetChange(name, len(rows), int(positive.sum()), *estimates)
