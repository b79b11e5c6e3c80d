"""Estimates of every measure of every run, from its stored verdicts.

All runs share the same resamples of source documents, so differences of runs are paired. A row that
failed in one run is left out of all of them; a run whose model lacks the head of a measure has no
value of it, and leaves no row out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trivet.ablation.judged_rows import JudgedRow
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
        return [[rows[index].prediction for index in places] for rows in runs]

    compared = []
    for test in dict.fromkeys(row.test for row in runs[0]):
        here = [i for i, row in enumerate(runs[0]) if row.test == test]
        compared += _compare(predictions(here), test, "")
        leaks = [{rows[i].leaked for rows in runs} for i in here]
        kinds = set().union(*leaks)
        if True in kinds and None not in kinds:
            free = [i for i, row_leaks in zip(here, leaks, strict=True) if True not in row_leaks]
            compared += _compare(predictions(free), test, ", leak-free rows")
    return compared


def _compare(runs: Sequence[Sequence[Prediction]], test: str, bucket: str) -> list[Compared]:
    compared: list[Compared] = []
    for family in by_family(runs[0]):
        measured = {
            name: measure_runs([[run[i] for i in places] for run in runs], name)
            for name, places in {**family.sources, **family.pooled()}.items()
        }
        for name, by_run in measured.items():
            overall = len(family.sources) == 1 or name == f"{family.name}/pooled"
            compared += join_sets([by_run], test, name + bucket, overall)
        if family.has_mean:
            sets = [measured[source] for source in family.sources]
            compared += join_sets(sets, test, f"{family.name}/mean{bucket}", True)
    return compared


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
        kept_samples = [sample for sample in samples(rows) if sample.measure in MEASURES]
        measured.append(measured_rows(rows, draws, places, kept_samples))
    return measured


def join_sets(
    sets: Sequence[Sequence[Mapping[str, Measured]]], test: str, source: str, overall: bool
) -> list[Compared]:
    """Return each measure that a run has of one set, or its mean over several, for every run.

    ``sets`` has the measures of every run, for each set.
    """
    compared = []
    for measure in MEASURES:
        known = [
            [run[measure] for run in runs]
            for runs in sets
            if any(measure in run and len(run[measure].sample.rows) for run in runs)
        ]
        if not known:
            continue
        # A run without the head has no rows.
        widest = [max(runs, key=lambda run: len(run.sample.rows)) for runs in known]
        positives = [run.sample.positives for run in widest if run.sample.positives is not None]
        by_run = zip(*([run.estimate for run in runs] for runs in known), strict=True)
        compared.append(
            Compared(
                test=test,
                source=source,
                overall=overall,
                measure=measure,
                estimates=tuple(
                    estimates[0] if len(sets) == 1 else average(estimates) for estimates in by_run
                ),
                n=sum(len(run.sample.rows) for run in widest),
                positives=sum(positives) if positives else None,
                groups=sum(run.groups for run in widest),
            )
        )
    return compared
