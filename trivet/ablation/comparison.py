"""Stored row scores -> estimates: every measure of every run, resampled alike for all runs.

All runs meet the same resamples of source documents, so that the difference of two runs, resample
by resample, is paired. A row that is not judged in one run is left out of all of them.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trivet.ablation.scores import Bins, RowScore
from trivet.measures.curves import BINS
from trivet.measures.intervals import (
    Draws,
    Estimate,
    FloatArray,
    IntArray,
    Statistic,
    auroc,
    average,
    best_f1,
    calibration_error,
    ratio,
    root_mean_square,
)
from trivet.measures.metrics import DEFAULT_PROTOCOL, PROTOCOLS
from trivet.records import DataError

# Every measure and whether more of it is better.
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
    """One measure of some rows, for every run.

    Attributes:
        test: The label of the test entry.
        source: A data set, ``FAMILY/mean`` or ``FAMILY/pooled``; with a length bucket behind it.
        overall: Whether this is the figure of a whole family: what a reader looks at first.
        measure: One of ``MEASURES``.
        estimates: Of each run, in the order of the runs.
        n: How many rows.
        positives: How many of them hold the positive class; None without classes.
        groups: How many source documents.
    """

    test: str
    source: str
    overall: bool
    measure: str
    estimates: tuple[Estimate, ...]
    n: int
    positives: int | None
    groups: int


def compare_runs(
    runs: Sequence[Sequence[RowScore]],
    lengths: Sequence[int] = (),
    resamples: int = 1000,
    seed: int = 0,
) -> list[Compared]:
    """Return every measure whose truth is known, of every source and family of every test entry.

    Args:
        runs: The row scores of each run, all of the same rows in the same order.
        lengths: Edges of length buckets in tokens; each bucket is also taken by itself.
        resamples: How many.
        seed: Of the resamples.

    Raises:
        DataError: Two runs were measured on different rows.
    """
    if not runs:
        return []
    _check_same_rows(runs)
    found = []
    for test in dict.fromkeys(row.test for row in runs[0]):
        here = np.array([i for i, row in enumerate(runs[0]) if row.test == test])
        found += _compare([[rows[i] for i in here] for rows in runs], test, "", resamples, seed)
        edges = [0, *lengths, None]
        for low, high in itertools.pairwise(edges) if lengths else ():
            part = [i for i in here if _between(runs[0][i].tokens, low or 0, high)]
            name = f"{low} tokens and more" if high is None else f"{low} to {high} tokens"
            chosen = [[rows[i] for i in part] for rows in runs]
            found += _compare(chosen, test, f", {name}", resamples, seed)
    return found


def _between(tokens: int, low: int, high: int | None) -> bool:
    return low <= tokens and (high is None or tokens < high)


def _check_same_rows(runs: Sequence[Sequence[RowScore]]) -> None:
    def names(rows: Sequence[RowScore]) -> list[tuple[str, int, str | None, str, str]]:
        return [(row.test, row.row, row.id, row.source, row.group) for row in rows]

    first = names(runs[0])
    for rows in runs[1:]:
        if names(rows) != first:
            raise DataError(
                f"runs were measured on different rows ({len(first)} and {len(rows)}): the test "
                "data changed in between; remove done.json of every run to measure them anew"
            )


def _compare(
    runs: Sequence[Sequence[RowScore]], test: str, bucket: str, resamples: int, seed: int
) -> list[Compared]:
    families: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for i, row in enumerate(runs[0]):
        families[row.source.split("/")[0]][row.source].append(i)
    found: list[Compared] = []
    for family, sources in sorted(families.items()):
        alone = len(sources) == 1
        parts: dict[str, dict[str, Compared]] = {}
        for source, places in sorted(sources.items()):
            rows = [[run[i] for i in places] for run in runs]
            parts[source] = _measured(rows, test, source, bucket, alone, resamples, seed)
            found += parts[source].values()
        if alone:
            continue
        overall = PROTOCOLS.get(family, DEFAULT_PROTOCOL).overall
        if overall != "mean":
            everything = [i for _, places in sorted(sources.items()) for i in places]
            rows = [[run[i] for i in everything] for run in runs]
            name = f"{family}/pooled"
            found += _measured(rows, test, name, bucket, True, resamples, seed).values()
        if overall != "pooled":
            found += _means(f"{family}/mean{bucket}", test, parts)
    return found


def _measured(
    runs: Sequence[Sequence[RowScore]],
    test: str,
    source: str,
    bucket: str,
    overall: bool,
    resamples: int,
    seed: int,
) -> dict[str, Compared]:
    """Return the measures of one source by name."""
    draws = Draws([row.group for row in runs[0]], source, resamples, seed)
    found = {}
    for measure in MEASURES:
        judged = [{i for i, row in enumerate(rows) if _known(row, measure)} for rows in runs]
        places: IntArray = np.array(sorted(set.intersection(*judged)), dtype=np.int64)
        if not len(places):
            continue
        kept = [[rows[i] for i in places] for rows in runs]
        found[measure] = Compared(
            test=test,
            source=source + bucket,
            overall=overall,
            measure=measure,
            estimates=tuple(draws.estimate(_statistic(rows, measure), places) for rows in kept),
            n=len(places),
            positives=_positives(kept[0], measure),
            groups=draws.count(places),
        )
    return found


def _means(name: str, test: str, parts: Mapping[str, Mapping[str, Compared]]) -> list[Compared]:
    """Return the mean over sets of each measure, run by run and resample by resample."""
    found = []
    for measure in MEASURES:
        sets = [part[measure] for part in parts.values() if measure in part]
        if not sets:
            continue
        positives = [one.positives for one in sets if one.positives is not None]
        found.append(
            Compared(
                test=test,
                source=name,
                overall=True,
                measure=measure,
                estimates=tuple(
                    average(of_run) for of_run in zip(*(one.estimates for one in sets), strict=True)
                ),
                n=sum(one.n for one in sets),
                positives=sum(positives) if positives else None,
                groups=sum(one.groups for one in sets),
            )
        )
    return found


def _known(row: RowScore, measure: str) -> bool:
    """Return whether a row has truth and score."""
    if measure.startswith("hallucination_"):
        return row.adherent is not None and row.faithfulness is not None
    if measure == "span_f1":
        return row.span_hits is not None
    if measure.endswith("_ece"):
        return _bins(row, measure) is not None
    return _score(row, measure) is not None and _truth(row, measure) is not None


def _statistic(rows: Sequence[RowScore], measure: str) -> Statistic:
    if measure.endswith("_rmse"):
        errors = [(_score(row, measure) or 0.0) - (_truth(row, measure) or 0.0) for row in rows]
        return root_mean_square(np.array(errors, dtype=np.float64))
    if measure == "span_f1":
        return _f1(
            hits=[row.span_hits or 0 for row in rows],
            flagged=[row.span_flagged or 0 for row in rows],
            gold=[row.span_gold or 0 for row in rows],
        )
    if measure.endswith("_ece") and measure != "hallucination_ece":
        return _binned_error([_bins(row, measure) or [] for row in rows])
    scores = 1 - np.array([row.faithfulness for row in rows], dtype=np.float64)
    positive = np.array([not row.adherent for row in rows], dtype=np.bool_)
    if measure == "hallucination_auroc":
        return auroc(scores, positive)
    if measure == "hallucination_ece":
        return calibration_error(np.arange(len(rows)), scores, positive, len(rows))
    if measure == "hallucination_f1_best_threshold":
        return best_f1(scores, positive)
    flagged = [int(bool(row.flagged)) for row in rows]
    hits = [int(bool(row.flagged and not row.adherent)) for row in rows]
    return _f1(hits, flagged, [int(one) for one in positive])


def _f1(hits: Sequence[int], flagged: Sequence[int], gold: Sequence[int]) -> Statistic:
    truth = np.array(gold, dtype=np.float64)
    return ratio(2 * np.array(hits, np.float64), np.array(flagged, np.float64) + truth, truth)


def _binned_error(rows: Sequence[Bins]) -> Statistic:
    """Expected calibration error of units that were counted in bins, row by row."""
    gaps = np.zeros((len(rows), BINS))
    counts = np.zeros(len(rows))
    for number, bins in enumerate(rows):
        for place, count, gap in bins:
            gaps[number, place] += gap
            counts[number] += count

    def statistic(weights: FloatArray) -> FloatArray:
        units = weights @ counts
        out = np.full(units.shape, np.nan)
        np.divide(np.abs(weights @ gaps).sum(axis=1), units, out=out, where=units > 0)
        return out

    return statistic


def _positives(rows: Sequence[RowScore], measure: str) -> int | None:
    if measure.startswith("hallucination_"):
        return sum(row.adherent is False for row in rows)
    if measure == "span_f1":
        return sum(bool(row.span_gold) for row in rows)
    return None


def _score(row: RowScore, measure: str) -> float | None:
    value: float | None = getattr(row, measure.removesuffix("_rmse"))
    return value


def _truth(row: RowScore, measure: str) -> float | None:
    value: float | None = getattr(row, measure.removesuffix("_rmse") + "_true")
    return value


def _bins(row: RowScore, measure: str) -> Bins | None:
    if measure == "hallucination_ece":
        return None
    value: Bins | None = getattr(row, measure.removesuffix("_ece") + "_bins")
    return value
