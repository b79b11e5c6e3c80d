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

MAX_FALL = 0.01
MEAN = "mean"
COUNTING = "counting words"
Pair = tuple[Sequence[Prediction], Sequence[Prediction]]
"""Verdicts of two bundles on the same rows, in the same order."""
_RESAMPLES = 1000


@dataclass(frozen=True)
class SetChange:
    """A figure of one set, of two bundles and of plain methods; resampled documents are paired."""

    name: str
    measure: str
    n: int  # rows (or pairs of rows) with a label and a verdict of both
    positives: int | None  # rows of them that are hallucinated; None for figures of relevance
    plain: Mapping[str, Estimate]  # by methods without training
    first: Estimate
    second: Estimate

    @property
    def change(self) -> Estimate:
        """Second less first."""
        return self.second.less(self.first)


def compare_sets(sets: Mapping[str, Pair]) -> list[SetChange]:
    """Return the AUROC on each set of rows, judged by two bundles, and the mean.

    A row without a verdict of one bundle is left out for both.
    """
    changes = [compare_auroc(name, *pair) for name, pair in sets.items()]
    return [*changes, mean_change(changes)]


def is_kept(changes: Sequence[SetChange]) -> bool:
    """Tell whether the second bundle is kept: the mean rises, and no set falls by over .01.

    A set without a value of one bundle decides against the second.
    """
    *sets, mean = (change.change.value for change in changes)
    falls = (value is None or value < -MAX_FALL for value in sets)
    return (mean or 0) > 0 and not any(falls)


def compare_auroc(
    name: str, first: Sequence[Prediction], second: Sequence[Prediction]
) -> SetChange:
    """Return the AUROC of hallucination by two bundles and by counting words."""
    units = response_units(first), response_units(second)
    rows: IntArray = np.intersect1d(units[0].rows, units[1].rows)
    before, after = (unit.probs[np.isin(unit.rows, rows)] for unit in units)
    positive = units[0].positive[np.isin(units[0].rows, rows)]
    draws = draws_of_documents(name, first)
    counted, *both = (
        draws.estimate(auroc(probs, positive), rows)
        for probs in (counted_probs(first, rows), before, after)
    )
    return SetChange(name, "AUROC", len(rows), int(positive.sum()), {COUNTING: counted}, *both)


def mean_change(changes: Sequence[SetChange]) -> SetChange:
    """Return the mean over sets, with the plain methods that all sets have."""
    methods = [name for name in changes[0].plain if all(name in change.plain for change in changes)]
    plain = {name: average([change.plain[name] for change in changes]) for name in methods}
    counts = [change.positives for change in changes if change.positives is not None]
    n, positives = sum(change.n for change in changes), sum(counts) if counts else None
    both = (average([getattr(change, part) for change in changes]) for part in ("first", "second"))
    measures = {change.measure for change in changes}
    measure = measures.pop() if len(measures) == 1 else ""
    return SetChange(MEAN, measure, n, positives, plain, *both)


def draws_of_documents(name: str, rows: Sequence[Prediction]) -> Draws:
    """Return the resamples of the source documents of a set."""
    return Draws([document(row.example) for row in rows], name, _RESAMPLES)
