"""Published scores of other judges and those of the bundle, on the same rows.

A row counts for a judge if its truth, the judge's score and the bundle's score are known. Measures:

- ``hallucination_auroc``, ``relevance_rmse``, ``utilization_rmse``: of the judge
- ``MEASURE_of_bundle``: of the bundle, on these rows
- ``MEASURE_difference``: the bundle's value less the judge's, with the same resamples for both
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trivet.measures.curves import FloatArray, IntArray
from trivet.measures.figures import Figure
from trivet.measures.intervals import Draws, Statistic, auroc, root_mean_square
from trivet.measures.metrics import Measured, by_family, draws_of, means, to_figure
from trivet.measures.predictions import Prediction, finite, support_of
from trivet.measures.samples import Sample, true_score
from trivet.records import Evaluation

_SCORES = {
    "hallucination_auroc": "faithfulness",
    "relevance_rmse": "relevance",
    "utilization_rmse": "utilization",
}


def measure_published(rows: Sequence[Prediction], *, resamples: int = 1000) -> list[Figure]:
    """Return the figures of each judge per source, and their mean over a family's sources.

    Raises:
        ValueError: A verdict holds a number that is not finite.
    """
    families = by_family(rows)
    figures: list[Figure] = []
    for judge in dict.fromkeys(
        published.judge for row in rows for published in row.example.published
    ):
        of_judge: list[Figure] = []
        for family in families:
            sets: dict[str, dict[str, Measured]] = {}
            for source, places in family.sources.items():
                source_rows = [rows[index] for index in places]
                draws = draws_of(source_rows, source, resamples)
                measured: dict[str, Measured] = {}
                for measure in _SCORES:
                    measured |= _compare(source_rows, draws, judge, measure)
                if measured:
                    sets[source] = measured
                    of_judge += [to_figure(source, measure) for measure in measured.values()]
            if len(sets) > 1:
                of_judge += means(f"{family.name}/mean", sets)
        figures += [replace(figure, judge=judge) for figure in of_judge]
    return figures


def _compare(
    rows: Sequence[Prediction], draws: Draws, judge: str, measure: str
) -> dict[str, Measured]:
    """Return one measure on the rows that the judge scored, and the differences; by name."""
    name, failed = _SCORES[measure], 0
    kept: list[int] = []
    scored: list[tuple[float, float, float]] = []  # truth, score of the judge, score of the bundle
    for index, row in enumerate(rows):
        theirs = next(
            (
                getattr(published, name)
                for published in row.example.published
                if published.judge == judge
            ),
            None,
        )
        if theirs is None:
            continue
        verdict, labels = row.evaluation, row.example.labels
        if not isinstance(verdict, Evaluation):
            failed += 1
            continue
        ours = support_of(verdict) if name == "faithfulness" else getattr(verdict, name)
        if ours is None:
            failed += 1
            continue
        truth = labels.adherent if name == "faithfulness" else true_score(labels, verdict, name)
        if truth is not None:
            finite([verdict], [ours])
            kept.append(index)
            scored.append((float(truth), theirs, ours))
    if not kept:
        return {}
    places: IntArray = np.array(kept, dtype=np.int64)
    truths, by_judge, by_bundle = np.array(scored, dtype=np.float64).T

    def statistic(scores: FloatArray) -> Statistic:
        if name == "faithfulness":
            return auroc(1 - scores, truths == 0)
        return root_mean_square(scores - truths)

    first, second = (draws.estimate(statistic(scores), places) for scores in (by_judge, by_bundle))
    positives = int((truths == 0).sum()) if name == "faithfulness" else None
    needs = "needs hallucinated and adherent rows"
    sample = Sample(measure, places, statistic(by_judge), positives, failed, needs)
    estimates = {
        measure: first,
        f"{measure}_of_bundle": second,
        f"{measure}_difference": second.less(first),
    }
    return {
        name: Measured(replace(sample, measure=name), estimate, draws.count(places))
        for name, estimate in estimates.items()
    }
