"""Estimates of every measure of every run, from its stored verdicts.

All runs share the same resamples of source documents, so differences of runs are paired. A row that
failed in one run is left out of all of them; a run whose model lacks the head of a measure has no
value of it, and leaves no row out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trivet.ablation.verdicts import JudgedRow
from trivet.errors import DataError
from trivet.measures.curves import IntArray
from trivet.measures.intervals import Estimate, average
from trivet.measures.metrics import Measured, by_family, draws_of, measured_rows
from trivet.measures.predictions import Prediction
from trivet.measures.samples import samples
from trivet.records import FailedEvaluation

_RESAMPLES = 1000

# Measures, and whether higher is better.
MEASURES = {
    "hallucination_auroc": True,
    "hallucination_f1": True,
    "hallucination_f1_best_threshold": True,
    "hallucination_ece": False,
    "span_f1": True,
    "relevance_rmse": False,
    "utilization_rmse": False,
    "completeness_rmse": False,
    "support_ece": False,
    "relevance_ece": False,
    "utilization_ece": False,
}


@dataclass(frozen=True)
class Compared:
    """One measure of some rows, for every run."""

    test: str  # label of the test entry
    source: str  # data set, FAMILY/mean or FAMILY/pooled, and a length bucket if any
    overall: bool  # whether this is the figure of a whole family
    measure: str
    estimates: tuple[Estimate, ...]  # one for each run
    n: int
    positives: int | None  # None without classes
    groups: int  # source documents


def compare_runs(runs: Sequence[Sequence[JudgedRow]]) -> list[Compared]:
    """Return all measures with a known truth, for each source and family of each test entry.

    Rows that share no text with the training rows of any run are also measured alone, if the other
    rows are known.

    Args:
        runs: Rows of each run, the same ones in the same order.

    Raises:
        DataError: Two runs were measured on different rows.
    """
    if not runs:
        return []
    first, *others = [[row.name() for row in rows] for rows in runs]
    for names in others:
        if names != first:
            raise DataError(
                f"runs were measured on different rows ({len(first)} and {len(names)}): the test "
                "data changed in between; remove done.json of every run to measure them anew"
            )

    def predictions(places: Iterable[int]) -> list[list[Prediction]]:
        return [[rows[place].prediction for place in places] for rows in runs]

    found = []
    for test in dict.fromkeys(row.test for row in runs[0]):
        here = [i for i, row in enumerate(runs[0]) if row.test == test]
        found += _compare(predictions(here), test, "")
        leaks = [{rows[i].leaked for rows in runs} for i in here]
        if any(True in one for one in leaks) and not any(None in one for one in leaks):
            free = [i for i, one in zip(here, leaks, strict=True) if True not in one]
            found += _compare(predictions(free), test, ", leak-free rows")
    return found


def _compare(runs: Sequence[Sequence[Prediction]], test: str, bucket: str) -> list[Compared]:
    found: list[Compared] = []
    for family in by_family(runs[0]):
        measured = {
            name: measure_runs([[run[i] for i in places] for run in runs], name)
            for name, places in {**family.sources, **family.pooled()}.items()
        }
        for name, one in measured.items():
            overall = len(family.sources) == 1 or name == f"{family.name}/pooled"
            found += join_sets([one], test, name + bucket, overall)
        if family.has_mean:
            sets = [measured[source] for source in family.sources]
            found += join_sets(sets, test, f"{family.name}/mean{bucket}", True)
    return found


def measure_runs(runs: Sequence[Sequence[Prediction]], name: str) -> list[dict[str, Measured]]:
    """Return the measures of each run by name, over the rows that failed in none."""
    draws = draws_of(runs[0], name, _RESAMPLES)
    kept = [
        i
        for i, judged in enumerate(zip(*runs, strict=True))
        if not any(isinstance(row.evaluation, FailedEvaluation) for row in judged)
    ]
    places: IntArray = np.array(kept, dtype=np.int64)
    measured = []
    for run in runs:
        rows = [run[i] for i in kept]
        found = [one for one in samples(rows) if one.measure in MEASURES]
        measured.append(measured_rows(rows, draws, places, found))
    return measured


def join_sets(
    sets: Sequence[Sequence[Mapping[str, Measured]]], test: str, source: str, overall: bool
) -> list[Compared]:
    """Return each measure that a run has of one set, or its mean over several, for every run.

    ``sets`` has the measures of every run, for each set.
    """
    found = []
    for measure in MEASURES:
        known = [
            [run[measure] for run in runs]
            for runs in sets
            if any(measure in run and len(run[measure].sample.rows) for run in runs)
        ]
        if not known:
            continue
        # A run without the head has no rows.
        widest = [max(runs, key=lambda one: len(one.sample.rows)) for runs in known]
        positives = [one.sample.positives for one in widest if one.sample.positives is not None]
        by_run = zip(*([one.estimate for one in runs] for runs in known), strict=True)
        found.append(
            Compared(
                test=test,
                source=source,
                overall=overall,
                measure=measure,
                estimates=tuple(one[0] if len(sets) == 1 else average(one) for one in by_run),
                n=sum(len(one.sample.rows) for one in widest),
                positives=sum(positives) if positives else None,
                groups=sum(one.groups for one in widest),
            )
        )
    return found
