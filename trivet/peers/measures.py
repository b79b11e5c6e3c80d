"""Measures of peers on the same rows, each with an interval over source documents.

Positive = hallucinated, score = 1 - faithfulness. A row without a score counts as failed and in no
other measure. ``*_fitted`` are at a threshold of best F1 that, for each row, was chosen on the
other documents of its data set. ``*_difference`` is the value less that of the first peer, on the
rows that both scored, in the same resamples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from trivet.labelled.grouping import data_set, document
from trivet.llm.budget import Price
from trivet.measures.curves import BoolArray, FloatArray, IntArray
from trivet.measures.figures import Figure
from trivet.measures.intervals import (
    Draws,
    Statistic,
    auroc,
    average_precision,
    balanced_accuracy,
    calibration_error,
    kappa,
    kendall_tau,
    precision_at_recall,
    quantile,
    ratio,
)
from trivet.measures.metrics import Measured, means, to_figure
from trivet.measures.samples import Sample
from trivet.peers.columns import Column, Part
from trivet.peers.predictions import Predictions
from trivet.records import LabelledExample

_FEW = 10  # distinct scores, below which ties decide much of a curve
_Build = Callable[[FloatArray, BoolArray], Statistic]


def _f1(flagged: FloatArray, positive: BoolArray) -> Statistic:
    gold = positive.astype(float)
    return ratio(2 * flagged * gold, flagged + gold, gold)


def _right(wanted: bool) -> _Build:
    """Return the share of a class that is told right."""

    def build(flagged: FloatArray, positive: BoolArray) -> Statistic:
        members = (positive == wanted).astype(float)
        return ratio(members * (flagged == wanted), members, members)

    return build


_AT_THRESHOLD: dict[str, _Build] = {
    "f1": _f1,
    "balanced_accuracy": balanced_accuracy,
    "true_positive_rate": _right(True),
    "true_negative_rate": _right(False),
}


def _of(field: str, build: _Build) -> tuple[str, Callable[[Column, BoolArray], Statistic]]:
    return field, lambda column, positive: build(getattr(column, field), positive)


# Field of `Column` that is known on the rows of a measure, and its statistic on them.
_MEASURES: dict[str, tuple[str, Callable[[Column, BoolArray], Statistic]]] = {
    "auroc": _of("suspicion", auroc),
    "auprc": _of("suspicion", average_precision),
    "precision_at_recall_90": _of("suspicion", lambda s, p: precision_at_recall(s, p, 0.9)),
    "calibration_error": _of(
        "suspicion", lambda s, p: calibration_error(np.arange(len(s)), s, p, len(s))
    ),
    **{name: _of("own", build) for name, build in _AT_THRESHOLD.items()},
    **{f"{name}_fitted": _of("fitted", build) for name, build in _AT_THRESHOLD.items()},
    "kappa_with_labels": _of("decided", lambda f, p: kappa(f, p.astype(float))),
    "span_precision": ("marked", lambda c, _: ratio(c.hits, c.marked, c.marked)),
    "span_recall": ("marked", lambda c, _: ratio(c.hits, c.gold, c.gold)),
    "span_f1": ("marked", lambda c, _: ratio(2 * c.hits, c.marked + c.gold, c.gold)),
}
# What an undefined measure needs, by the first word of its name.
_NEEDS = {
    "span": "needs marked and unsupported characters",
    "kendall": "needs generators that differ",
    "kappa": "needs two values",
    "flagged": "needs flagged rows",
}


_Samples = Iterator[tuple[str, Sample]]  # of a peer, or of a pair of peers


def measure_peers(
    rows: Sequence[LabelledExample],
    part: Part,
    peers: Mapping[str, Predictions],
    prices: Mapping[str, Price],
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> list[Figure]:
    """Return all figures: of each data set, then the costs on all rows.

    Args:
        rows: All rows.
        part: The labelled ones, with the columns of the peers; differences are to the first peer.
        peers: Predictions by peer.
        prices: Prices by model or by peer.
        resamples: Number of bootstrap resamples.
        seed: Seed of the resamples.

    Returns:
        For each data set: its sources, all of them pooled and their mean, and the rows that every
        peer scored if not all did.
    """

    def measured(part: Part, samples: _Samples, source: str) -> list[tuple[str, Measured]]:
        draws = Draws([document(row) for row in part.rows], source, resamples, seed)
        return [
            (peer, Measured(one, draws.estimate(one.statistic, one.rows), draws.count(one.rows)))
            for peer, one in samples
        ]

    def taken(part: Part, samples: _Samples, source: str, **names: Any) -> list[Figure]:
        found = measured(part, samples, source)
        return [replace(to_figure(source, one), judge=peer, **names) for peer, one in found]

    figures: list[Figure] = []
    for name, own in part.split(data_set).items():
        sources = own.split(lambda row: row.source)
        whole = next(iter(sources)) if len(sources) == 1 else f"{name}/pooled"
        if len(sources) > 1:
            each = {source: measured(one, _samples(one), source) for source, one in sources.items()}
            for source, found in each.items():
                figures += [replace(to_figure(source, one), judge=peer) for peer, one in found]
            for peer in (column.name for column in own.columns):
                of_peer = {
                    source: {one.sample.measure: one for judge, one in found if judge == peer}
                    for source, found in each.items()
                }
                figures += [replace(one, judge=peer) for one in means(f"{name}/mean", of_peer)]
        figures += taken(own, _samples(own), whole)
        figures += taken(own, _agreement(own), whole)
        scored = [one for c in own.columns if (one := np.isfinite(c.suspicion)).any()]
        common = np.all(scored, axis=0) if scored else np.ones(len(own.rows), dtype=bool)
        if len(scored) > 1 and not common.all():
            shared = own.at(np.flatnonzero(common))
            figures += taken(shared, _samples(shared), whole, rows="scored by all")
    every = Part(rows, np.zeros(len(rows), dtype=bool), ())
    for peer, predictions in peers.items():
        price = prices.get(peer) or prices.get(predictions.header.model)
        if prices and not predictions.header.model:
            price = price or Price()  # it calls no LLM
        costs = ((peer, sample) for sample in _costs(predictions, price))
        for figure in taken(every, costs, "costs"):
            figures.append(replace(figure, source="all rows"))
    if any(len(found.repeats) > 1 for found in peers.values()):
        flips = ((one.name, _mean_of("flips", one.flips)) for one in part.columns)
        figures += taken(part, flips, "labelled rows")
    return figures


def _samples(part: Part) -> _Samples:
    """Yield the measures of every peer, and their differences to the first peer."""
    first = part.columns[0]
    for column in part.columns:
        for measure, (field, build) in _MEASURES.items():
            values, theirs = getattr(column, field), getattr(first, field)
            rows, both = _known(values, values + theirs)
            if len(rows):
                count = len(np.unique(values[rows]))
                ties = measure == "auroc" and count < _FEW
                note = f"distinct scores: {count}, so ties decide much" if ties else None
                statistic = build(column.at(rows), part.positive[rows])
                yield column.name, _sample(measure, rows, statistic, part.positive, note)
            if len(both) and column is not first:
                pair = (build(each.at(both), part.positive[both]) for each in (column, first))
                name, statistic = f"{measure}_difference", _less(*pair)
                yield column.name, _sample(name, both, statistic, part.positive)


def _less(first: Statistic, second: Statistic) -> Statistic:
    return lambda weights: first(weights) - second(weights)


def _agreement(part: Part) -> _Samples:
    """Yield how alike pairs of peers flag, and how each peer ranks the generators."""
    systems, group = np.unique([row.generator or "" for row in part.rows], return_inverse=True)

    def tau(column: Column, rows: IntArray) -> Statistic:
        truths = part.positive[rows].astype(float)
        return kendall_tau(column.suspicion[rows], truths, group[rows])

    for number, one in enumerate(part.columns):
        for other in part.columns[number + 1 :]:
            rows = np.flatnonzero(np.isfinite(one.decided + other.decided))
            first, second = one.decided[rows], other.decided[rows]
            either, pair = np.maximum(first, second), f"{one.name} and {other.name}"
            if len(rows):
                yield pair, _sample("kappa", rows, kappa(first, second), part.positive)
                overlap = ratio(first * second, either, either)
                yield pair, _sample("flagged_overlap", rows, overlap, part.positive)
        rows, both = _known(one.suspicion, one.suspicion + part.columns[0].suspicion)
        if len(systems) > 2 and len(rows):
            note = f"{len(systems)} generators"
            yield one.name, _sample("kendall_tau", rows, tau(one, rows), part.positive, note)
        if len(systems) > 2 and len(both) and number:
            less = _less(tau(one, both), tau(part.columns[0], both))
            yield one.name, _sample("kendall_tau_difference", both, less, part.positive)


def _known(*columns: FloatArray) -> list[IntArray]:
    """Return the rows on which each column of values [n] is known."""
    return [np.flatnonzero(np.isfinite(each)) for each in columns]


def _sample(
    measure: str, rows: IntArray, statistic: Statistic, positive: BoolArray, note: str | None = None
) -> Sample:
    """Return a sample of some of the rows whose labels are given [n]."""
    hits, failed = int(positive[rows].sum()), len(positive) - len(rows)
    needs = _NEEDS.get(measure.partition("_")[0], "needs both classes")
    return Sample(measure, rows, statistic, hits, failed, needs, note)


def _mean_of(measure: str, values: FloatArray) -> Sample:
    """Return the mean of the values that are known."""
    rows = np.flatnonzero(np.isfinite(values))
    every = np.ones(len(rows))
    statistic = ratio(values[rows], every, every)
    return Sample(measure, rows, statistic, None, len(values) - len(rows), "nothing is known")


def _costs(found: Predictions, price: Price | None) -> Iterator[Sample]:
    """Yield the failures, and what a row costs in time, calls, tokens and dollars."""
    columns = {
        name: np.array([[getattr(one, name) for one in each] for each in found.repeats], float)
        for name in ("seconds", "calls", "prompt_tokens", "completion_tokens")
    }
    missing = [[one.failed is not None for one in each] for each in found.repeats]
    yield _mean_of("failed", np.mean(missing, axis=0))
    seconds = columns.pop("seconds")[0]
    rows = np.flatnonzero(np.isfinite(seconds))
    for share in (50, 95) if len(rows) else ():
        statistic, failed = quantile(seconds[rows], share / 100), len(seconds) - len(rows)
        yield Sample(f"seconds_p{share}", rows, statistic, None, failed)
    # Stored scores, which nobody timed, may have cost something.
    if columns["calls"].any() or (price is not None and len(rows)):
        means = {name: values.mean(axis=0) for name, values in columns.items()}
        for name, values in means.items():
            yield _mean_of(name, values)
        if price is not None:
            dollars = (
                price.input * means["prompt_tokens"] + price.output * means["completion_tokens"]
            )
            yield _mean_of("dollars_per_1000_rows", dollars / 1000)
