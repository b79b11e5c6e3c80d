"""Estimates of every measure of every run, from stored row scores.

All runs share the same resamples of source documents, so differences of runs are paired. A row that
failed in one run is left out of all of them; a run whose model lacks the head of a measure has no
value of it, and leaves no row out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trivet.ablation.scores import RowScore
from trivet.errors import DataError
from trivet.measures.curves import BINS
from trivet.measures.intervals import (
    Draws,
    Estimate,
    IntArray,
    Statistic,
    auroc,
    average,
    best_f1,
    binned_calibration_error,
    calibration_error,
    ratio,
    root_mean_square,
)
from trivet.measures.metrics import DEFAULT_PROTOCOL, PROTOCOLS, pooled_sources

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


def compare_runs(runs: Sequence[Sequence[RowScore]]) -> list[Compared]:
    """Return all measures with a known truth, for each source and family of each test entry.

    Rows that share no text with the training rows of any run are also measured alone, if the other
    rows are known.

    Args:
        runs: Row scores of each run, all of the same rows in the same order.

    Raises:
        DataError: Two runs were measured on different rows.
    """
    if not runs:
        return []
    first, *others = [
        [(row.test, row.row, row.id, row.source, row.group) for row in rows] for rows in runs
    ]
    for names in others:
        if names != first:
            raise DataError(
                f"runs were measured on different rows ({len(first)} and {len(names)}): the test "
                "data changed in between; remove done.json of every run to measure them anew"
            )
    found = []
    for test in dict.fromkeys(row.test for row in runs[0]):
        here = [i for i, row in enumerate(runs[0]) if row.test == test]
        found += _compare([[rows[i] for i in here] for rows in runs], test, "")
        leaks = [{rows[i].leaked for rows in runs} for i in here]
        if any(True in one for one in leaks) and not any(None in one for one in leaks):
            free = [i for i, one in zip(here, leaks, strict=True) if True not in one]
            chosen = [[rows[i] for i in free] for rows in runs]
            found += _compare(chosen, test, ", leak-free rows")
    return found


def _compare(runs: Sequence[Sequence[RowScore]], test: str, bucket: str) -> list[Compared]:
    families: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for i, row in enumerate(runs[0]):
        families[row.source.split("/")[0]][row.source].append(i)
    found: list[Compared] = []
    for family, sources in sorted(families.items()):

        def measured(name: str, places: Sequence[int], overall: bool) -> dict[str, Compared]:
            rows = [[run[i] for i in places] for run in runs]
            return _measured(rows, test, name, bucket, overall)

        alone = len(sources) == 1
        parts = {name: measured(name, sources[name], alone) for name in sorted(sources)}
        found += [one for part in parts.values() for one in part.values()]
        for name, own in pooled_sources(family, sources).items():
            places = [i for source in own for i in sources[source]]
            found += measured(name, places, name == f"{family}/pooled").values()
        if not alone and PROTOCOLS.get(family, DEFAULT_PROTOCOL).overall != "pooled":
            found += _means(f"{family}/mean{bucket}", test, parts)
    return found


def _measured(
    runs: Sequence[Sequence[RowScore]], test: str, source: str, bucket: str, overall: bool
) -> dict[str, Compared]:
    """Return the measures of one source by name."""
    draws = Draws([row.group for row in runs[0]], source, _RESAMPLES)
    found = {}
    for measure in MEASURES:
        known = [{i for i, row in enumerate(rows) if _known(row, measure)} for rows in runs]
        common = set.intersection(*(own for own in known if own)) if any(known) else set()
        places: IntArray = np.array(sorted(common), dtype=np.int64)
        if not len(places):
            continue
        kept = [
            [rows[i] for i in places] if own else [] for rows, own in zip(runs, known, strict=True)
        ]
        undefined = Estimate(None, np.full(_RESAMPLES, np.nan))
        found[measure] = Compared(
            test=test,
            source=source + bucket,
            overall=overall,
            measure=measure,
            estimates=tuple(
                draws.estimate(_statistic(rows, measure), places) if rows else undefined
                for rows in kept
            ),
            n=len(places),
            positives=_positives(next(rows for rows in kept if rows), measure),
            groups=draws.count(places),
        )
    return found


def _means(name: str, test: str, parts: Mapping[str, Mapping[str, Compared]]) -> list[Compared]:
    """Return the mean over sets of each measure, for each run and resample."""
    found = []
    for measure in MEASURES:
        sets = [part[measure] for part in parts.values() if measure in part]
        if not sets:
            continue
        positives = [one.positives for one in sets if one.positives is not None]
        by_run = zip(*(one.estimates for one in sets), strict=True)
        found.append(
            Compared(
                test=test,
                source=name,
                overall=True,
                measure=measure,
                estimates=tuple(average(estimates) for estimates in by_run),
                n=sum(one.n for one in sets),
                positives=sum(positives) if positives else None,
                groups=sum(one.groups for one in sets),
            )
        )
    return found


def _known(row: RowScore, measure: str) -> bool:
    """Return whether a row has truth and score."""
    name = measure.rpartition("_")[0]
    if measure.startswith("hallucination_"):
        return row.adherent is not None and row.faithfulness is not None
    if measure == "span_f1":
        return row.span_hits is not None
    if measure.endswith("_ece"):
        return getattr(row, f"{name}_bins") is not None
    return getattr(row, name) is not None and getattr(row, f"{name}_true") is not None


def _statistic(rows: Sequence[RowScore], measure: str) -> Statistic:
    """Return the statistic of rows with known truth and score."""
    name = measure.rpartition("_")[0]
    if measure.endswith("_rmse"):
        errors = [getattr(row, name) - getattr(row, f"{name}_true") for row in rows]
        return root_mean_square(np.array(errors, dtype=np.float64))
    if measure == "span_f1":
        amounts = [(row.span_hits, row.span_flagged, row.span_gold) for row in rows]
        hits, flagged, gold = np.array(amounts, dtype=np.float64).T
        return ratio(2 * hits, flagged + gold, gold)
    if measure.endswith("_ece") and measure != "hallucination_ece":
        gaps, counts = np.zeros((len(rows), BINS)), np.zeros(len(rows), dtype=np.int64)
        for number, row in enumerate(rows):
            for place, count, gap in getattr(row, f"{name}_bins"):
                gaps[number, place] += gap
                counts[number] += count
        return binned_calibration_error(gaps, counts)
    scores = 1 - np.array([row.faithfulness for row in rows], dtype=np.float64)
    positive = np.array([not row.adherent for row in rows], dtype=np.bool_)
    if measure == "hallucination_auroc":
        return auroc(scores, positive)
    if measure == "hallucination_ece":
        return calibration_error(np.arange(len(rows)), scores, positive, len(rows))
    if measure == "hallucination_f1_best_threshold":
        return best_f1(scores, positive)
    flagged = np.array([bool(row.flagged) for row in rows], dtype=np.float64)
    gold = positive.astype(np.float64)
    return ratio(2 * flagged * gold, flagged + gold, gold)


def _positives(rows: Sequence[RowScore], measure: str) -> int | None:
    if measure.startswith("hallucination_"):
        return sum(row.adherent is False for row in rows)
    if measure == "span_f1":
        return sum(bool(row.span_gold) for row in rows)
    return None
