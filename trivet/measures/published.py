"""Published scores of other judges beside those of the bundle, on the same rows.

A row counts for a judge if its truth, the judge's score and the bundle's score are known. Measures:

- ``hallucination_auroc``, ``relevance_rmse``, ``utilization_rmse``: of the judge
- ``MEASURE_of_bundle``: of the bundle, on these rows
- ``MEASURE_difference``: the bundle's value less the judge's, with the same resamples for both
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trivet.measures.figures import Figure
from trivet.measures.intervals import (
    Draws,
    Estimate,
    FloatArray,
    IntArray,
    Statistic,
    auroc,
    average,
    root_mean_square,
)
from trivet.measures.metrics import draws_of
from trivet.measures.predictions import Prediction, finite
from trivet.measures.samples import true_score
from trivet.records import Evaluation

_SCORES = {
    "hallucination_auroc": "faithfulness",
    "relevance_rmse": "relevance",
    "utilization_rmse": "utilization",
}


@dataclass(frozen=True)
class _Compared:
    """One measure of a judge and of the bundle, and their difference, on the same rows."""

    estimates: dict[str, Estimate]  # by name of the measure
    n: int
    positives: int | None
    groups: int
    failed: int


def measure_published(rows: Sequence[Prediction], *, resamples: int = 1000) -> list[Figure]:
    """Return the figures of each judge per source, then their mean over a family's sources.

    Raises:
        ValueError: A verdict holds a number that is not finite.
    """
    sources: dict[str, list[Prediction]] = defaultdict(list)
    for row in rows:
        sources[row.example.source].append(row)
    judges = dict.fromkeys(one.judge for row in rows for one in row.example.published)
    figures: list[Figure] = []
    for judge in judges:
        families: dict[str, list[dict[str, _Compared]]] = defaultdict(list)
        for source in sorted(sources):
            draws = draws_of(sources[source], source, resamples)
            compared = {
                measure: found
                for measure in _SCORES
                if (found := _compare(sources[source], draws, judge, measure)) is not None
            }
            if compared:
                families[source.split("/")[0]].append(compared)
                figures += [
                    one for each in compared.values() for one in _figures(source, judge, each)
                ]
        for family, sets in families.items():
            if len(sets) < 2:
                continue
            for measure in _SCORES:
                if parts := [one[measure] for one in sets if measure in one]:
                    figures += _figures(f"{family}/mean", judge, _mean(parts))
    return figures


def _compare(
    rows: Sequence[Prediction], draws: Draws, judge: str, measure: str
) -> _Compared | None:
    """Return one measure on the rows that the judge scored; None if there are none."""
    name, failed = _SCORES[measure], 0
    kept: list[int] = []
    found: list[tuple[float, float, float]] = []  # truth, score of the judge, score of the bundle
    for place, row in enumerate(rows):
        theirs = next(
            (getattr(one, name) for one in row.example.published if one.judge == judge), None
        )
        if theirs is None:
            continue
        verdict, labels = row.evaluation, row.example.labels
        ours = getattr(verdict, name, None)
        if not isinstance(verdict, Evaluation) or ours is None:
            failed += 1
            continue
        truth = labels.adherent if name == "faithfulness" else true_score(labels, verdict, name)
        if truth is not None:
            finite([verdict], [ours])
            kept.append(place)
            found.append((float(truth), theirs, ours))
    if not kept:
        return None
    places: IntArray = np.array(kept, dtype=np.int64)
    truths, by_judge, by_bundle = np.array(found, dtype=np.float64).T

    def statistic(scores: FloatArray) -> Statistic:
        if name == "faithfulness":
            return auroc(1 - scores, truths == 0)
        return root_mean_square(scores - truths)

    first, second = (draws.estimate(statistic(one), places) for one in (by_judge, by_bundle))
    return _Compared(
        estimates=_with_difference(measure, first, second),
        n=len(kept),
        positives=int((truths == 0).sum()) if name == "faithfulness" else None,
        groups=draws.count(places),
        failed=failed,
    )


def _with_difference(measure: str, judge: Estimate, bundle: Estimate) -> dict[str, Estimate]:
    both = judge.value is not None and bundle.value is not None
    value = (bundle.value or 0) - (judge.value or 0) if both else None
    return {
        measure: judge,
        f"{measure}_of_bundle": bundle,
        f"{measure}_difference": Estimate(value, bundle.resampled - judge.resampled),
    }


def _mean(parts: Sequence[_Compared]) -> _Compared:
    """Return the mean over sets; a set in which a measure is undefined is left out."""
    positives = [one.positives for one in parts if one.positives is not None]
    return _Compared(
        estimates={
            name: average([one.estimates[name] for one in parts]) for name in parts[0].estimates
        },
        n=sum(one.n for one in parts),
        positives=sum(positives) if positives else None,
        groups=sum(one.groups for one in parts),
        failed=sum(one.failed for one in parts),
    )


def _figures(source: str, judge: str, compared: _Compared) -> list[Figure]:
    figures = []
    for measure, estimate in compared.estimates.items():
        low, high = estimate.interval() or (None, None)
        note = None
        if estimate.value is None:
            note = "undefined: needs hallucinated and adherent rows"
        elif low is None:
            note = "no interval: too few resamples are defined"
        figures.append(
            Figure(
                measure=measure,
                source=source,
                value=estimate.value,
                low=low,
                high=high,
                n=compared.n,
                positives=compared.positives,
                groups=compared.groups,
                failed=compared.failed,
                note=note,
                judge=judge,
            )
        )
    return figures
