"""Measures of peers on the same rows, each with an interval over source documents.

Positive = hallucinated, score = 1 - faithfulness. A row without a score counts as failed and in no
other measure. ``*_fitted`` are at a threshold of best F1 that, for each row, was chosen on the
other documents of its data set. ``*_difference`` is the value less that of the first peer, on the
rows that both scored, in the same resamples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from trivet.llm.budget import Price
from trivet.measures.figures import Figure
from trivet.measures.intervals import (
    BoolArray,
    Draws,
    Estimate,
    FloatArray,
    IntArray,
    Statistic,
    auroc,
    average,
    average_precision,
    balanced_accuracy,
    calibration_error,
    kappa,
    kendall_tau,
    precision_at_recall,
    quantile,
    ratio,
)
from trivet.peers.columns import Part, document, family
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
# Field of `Column` and statistic of each measure.
_MEASURES: dict[str, tuple[str, _Build]] = {
    "auroc": ("suspicion", auroc),
    "auprc": ("suspicion", average_precision),
    "precision_at_recall_90": ("suspicion", lambda s, p: precision_at_recall(s, p, 0.9)),
    "calibration_error": (
        "suspicion",
        lambda s, p: calibration_error(np.arange(len(s)), s, p, len(s)),
    ),
    **{name: ("own", build) for name, build in _AT_THRESHOLD.items()},
    **{f"{name}_fitted": ("fitted", build) for name, build in _AT_THRESHOLD.items()},
    "kappa_with_labels": ("decided", lambda f, p: kappa(f, p.astype(float))),
}
_COMPARED = ("auroc", "auprc", "f1", "balanced_accuracy", "f1_fitted", "balanced_accuracy_fitted")
_SLICED = ("auroc", "f1_fitted", "balanced_accuracy_fitted")  # by generator and length


class _Sample(NamedTuple):
    """A measure of a peer: the rows that it is taken on, and its statistic."""

    measure: str
    peer: str
    rows: IntArray
    statistic: Statistic
    note: str | None = None


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
        For each data set: its sources, all of them pooled and their mean, the rows that every peer
        scored if not all did, generators, and thirds by length.
    """

    def taken(part: Part, samples: Iterable[_Sample], source: str, **names: str) -> list[_Taken]:
        draws = Draws([document(row) for row in part.rows], source, resamples, seed)
        return [_take(sample, draws, part.positive, source, **names) for sample in samples]

    figures: list[Figure] = []
    for name, own in part.split(family).items():
        sources = own.split(lambda row: row.source)
        each = [taken(one, _samples(one), source) for source, one in sources.items()]
        found = [one for several in each for one in several]
        whole = next(iter(sources)) if len(each) == 1 else f"{name}/pooled"
        if len(each) > 1:
            found += taken(own, _samples(own), whole)
            found += _means(f"{name}/mean", each)
        found += taken(own, _agreement(own), whole)
        scored = [one for c in own.columns if (one := np.isfinite(c.suspicion)).any()]
        common = np.all(scored, axis=0) if scored else np.ones(len(own.rows), dtype=bool)
        if not common.all():
            shared = own.at(np.flatnonzero(common))
            found += taken(shared, _samples(shared), whole, rows="scored by all")
        generators = own.split(lambda row: row.generator or "unknown")
        for generator, some in generators.items() if len(generators) > 1 else ():
            found += taken(some, _samples(some, _SLICED), whole, generator=generator)
        for length, some in own.split(_thirds(own.rows)).items():
            found += taken(some, _samples(some, _SLICED), whole, length=length)
        figures += [figure for figure, _ in found]
    draws = Draws([document(row) for row in rows], "costs", resamples, seed)
    for peer, predictions in peers.items():
        price = prices.get(peer) or prices.get(predictions.header.model)
        for sample in _costs(peer, predictions, price):
            figures.append(_take(sample, draws, None, "all rows")[0])
    if any(len(found.repeats) > 1 for found in peers.values()):
        flips = [_ratio_of("flips", one.name, one.flips) for one in part.columns]
        figures += [figure for figure, _ in taken(part, flips, "labelled rows")]
    return figures


def _samples(part: Part, measures: Sequence[str] = tuple(_MEASURES)) -> Iterator[_Sample]:
    """Yield the measures of every peer, and their differences to the first peer."""
    first = part.columns[0]
    for column in part.columns:
        for measure in measures:
            field, build = _MEASURES[measure]
            values, theirs = getattr(column, field), getattr(first, field)
            rows, both = (np.flatnonzero(np.isfinite(v)) for v in (values, values + theirs))
            if len(rows):
                count = len(np.unique(values[rows]))
                note = f"only {count} distinct scores" if count < _FEW else None
                statistic = build(values[rows], part.positive[rows])
                yield _Sample(
                    *(measure, column.name, rows, statistic), note if measure == "auroc" else None
                )
            if len(both) and column is not first and measure in _COMPARED:
                pair = (build(each[both], part.positive[both]) for each in (values, theirs))
                yield _Sample(f"{measure}_difference", column.name, both, _less(*pair))
        rows = np.flatnonzero(np.isfinite(column.marked))
        if len(rows) and len(measures) == len(_MEASURES):
            marked, hits, gold = (v[rows] for v in (column.marked, column.hits, column.gold))
            for name, statistic in (
                ("span_precision", ratio(hits, marked, marked)),
                ("span_recall", ratio(hits, gold, gold)),
                ("span_f1", ratio(2 * hits, marked + gold, gold)),
            ):
                yield _Sample(name, column.name, rows, statistic)


def _less(first: Statistic, second: Statistic) -> Statistic:
    return lambda weights: first(weights) - second(weights)


def _agreement(part: Part) -> Iterator[_Sample]:
    """Yield how alike pairs of peers flag, and how each peer ranks the generators."""
    systems, group = np.unique([row.generator or "" for row in part.rows], return_inverse=True)
    for number, one in enumerate(part.columns):
        for other in part.columns[number + 1 :]:
            rows = np.flatnonzero(np.isfinite(one.decided + other.decided))
            first, second = one.decided[rows], other.decided[rows]
            either, pair = np.maximum(first, second), f"{one.name} and {other.name}"
            if len(rows):
                yield _Sample("kappa", pair, rows, kappa(first, second))
                overlap = ratio(first * second, either, either)
                yield _Sample("flagged_overlap", pair, rows, overlap)
        rows = np.flatnonzero(np.isfinite(one.suspicion))
        if len(rows) and len(systems) > 2:
            truths = part.positive[rows].astype(float)
            tau = kendall_tau(one.suspicion[rows], truths, group[rows])
            yield _Sample("kendall_tau", one.name, rows, tau, f"{len(systems)} generators")


def _thirds(rows: Sequence[LabelledExample]) -> Callable[[LabelledExample], str]:
    """Return a function that names the third of a row by its words."""

    def words(row: LabelledExample) -> int:
        one = row.example
        return sum(len(text.split()) for text in (one.question, *one.contexts, one.response))

    low, high = (int(each) for each in np.quantile([*map(words, rows)], (1 / 3, 2 / 3)))
    names = f"1: up to {low} words", f"2: {low + 1} to {high} words", f"3: over {high} words"
    return lambda row: names[int(words(row) > low) + int(words(row) > high)]


def _ratio_of(measure: str, peer: str, values: FloatArray) -> _Sample:
    """Return the mean of the values that are known."""
    rows = np.flatnonzero(np.isfinite(values))
    every = np.ones(len(rows))
    return _Sample(measure, peer, rows, ratio(values[rows], every, every))


def _costs(peer: str, found: Predictions, price: Price | None) -> Iterator[_Sample]:
    """Yield the failures, and what a row costs in time, calls, tokens and dollars."""
    columns = {
        name: np.array([[getattr(one, name) for one in each] for each in found.repeats], float)
        for name in ("seconds", "calls", "prompt_tokens", "completion_tokens")
    }
    missing = [[one.failed is not None for one in each] for each in found.repeats]
    yield _ratio_of("failed", peer, np.mean(missing, axis=0))
    seconds = columns.pop("seconds")[0]
    rows = np.flatnonzero(np.isfinite(seconds))
    for share in (50, 95) if len(rows) else ():
        yield _Sample(f"seconds_p{share}", peer, rows, quantile(seconds[rows], share / 100))
    if columns["calls"].any():
        means = {name: values.mean(axis=0) for name, values in columns.items()}
        for name, values in means.items():
            yield _ratio_of(name, peer, values)
        if price is not None:
            dollars = (
                price.input * means["prompt_tokens"] + price.output * means["completion_tokens"]
            )
            yield _ratio_of("dollars_per_1000_rows", peer, dollars / 1000)


_Taken = tuple[Figure, Estimate]


def _take(
    sample: _Sample, draws: Draws, positive: BoolArray | None, source: str, **names: str
) -> _Taken:
    estimate = draws.estimate(sample.statistic, sample.rows)
    return _figure(
        estimate,
        sample.note,
        measure=sample.measure,
        source=source,
        n=len(sample.rows),
        positives=None if positive is None else int(positive[sample.rows].sum()),
        groups=draws.count(sample.rows),
        failed=len(draws.groups) - len(sample.rows),
        judge=sample.peer,
        **names,
    )


def _means(source: str, each: Sequence[Sequence[_Taken]]) -> list[_Taken]:
    """Return the mean over sources of each measure of each peer."""
    parts: dict[tuple[str, str | None], list[_Taken]] = {}
    for taken in (one for several in each for one in several):
        parts.setdefault((taken[0].measure, taken[0].judge), []).append(taken)
    means = []
    for (measure, peer), found in parts.items():
        figures = [figure for figure, _ in found]
        defined = sum(one.value is not None for one in figures)
        means.append(
            _figure(
                average([estimate for _, estimate in found]),
                None if defined == len(each) else f"mean over {defined} of {len(each)} sets",
                measure=measure,
                source=source,
                n=sum(one.n for one in figures),
                positives=sum(one.positives or 0 for one in figures),
                groups=sum(one.groups for one in figures),
                failed=sum(one.failed for one in figures),
                judge=peer,
            )
        )
    return means


def _figure(estimate: Estimate, note: str | None, **fields: Any) -> _Taken:
    low, high = estimate.interval() or (None, None)
    if estimate.value is None:
        note = "undefined: needs both classes"
    elif low is None:
        note = "; ".join(filter(None, (note, "no interval: too few resamples are defined")))
    return Figure(value=estimate.value, low=low, high=high, note=note, **fields), estimate
