"""Two judged runs over the same questions as a page: what changed, and which answers the most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from trivet.records import ConfigError
from trivet.report.answer import read_answer
from trivet.report.cards import Card, Choices, make_card, render_cards
from trivet.report.failure_kinds import KINDS, Limits
from trivet.report.pages import Section
from trivet.report.pairing import Pairing, pair
from trivet.report.plots import interval_svg
from trivet.report.statistic_sections import about_section, interval, number, short
from trivet.report.tally import tally
from trivet.report.verdict_row import VerdictRow
from trivet.report.verdicts_page import SHOWN
from trivet.verdict_json import SCORES

_SMALL = 0.05  # a change of a score that is not called a change
_NEW, _GONE = "newly {}", "no longer {}"
_SAME = "same kinds"


def render_comparison(
    runs: tuple[Iterable[VerdictRow], Iterable[VerdictRow]],
    names: tuple[str, str],
    abouts: tuple[Mapping[str, str], Mapping[str, str]],
    *,
    remarks: Sequence[str] = (),
    limits: Limits | None = None,
    by: Sequence[str] = (),
    shown: int = SHOWN,
) -> str:
    """Return the page of two runs.

    Args:
        runs: Each is read twice, in the same order.
        names: What they are called.
        abouts: What is known of each.
        remarks: Sentences about both.
        limits: Of the kinds of failure.
        by: Columns of the first run's metadata to group by; all that have 2 to 20 values without.
        shown: How many pairs the page shows, those that changed most.

    Raises:
        DataError: A run is empty, they have no row in common, or no row has a column of ``by``.
        ConfigError: ``shown`` is negative, or a run can be read only once.
    """
    if shown < 0:
        raise ConfigError(f"{shown} answers are to be shown; give 0 or more")
    if any(iter(rows) is rows for rows in runs):
        raise ConfigError("the rows of a report are read twice; give a list, not an iterator")
    limits = limits or Limits()
    pairs = pair(tally(runs[0], limits, by), tally(runs[1], limits))
    labels = (f"A: {names[0]}", f"B: {names[1]}")
    changes = tuple(form.format(kind) for kind in KINDS for form in (_NEW, _GONE))
    scores = tuple(f"change of {score}" for score in SCORES)
    good = (*(_GONE.format(kind) for kind in KINDS), _SAME)
    choices = Choices((*changes, _SAME), scores, pairs.first.columns, good)
    numbers = _changed_most(pairs, shown)
    left_out = int(pairs.judged.sum()) - len(numbers)
    told = [
        f"The page shows the {len(numbers):,} pairs that changed most, by each score in turn; "
        f"{left_out:,} more were judged twice. A change is the score in B minus the score in A."
    ]
    return render_cards(
        f"{names[0]} and {names[1]} compared",
        before=[
            *(about_section(*both, ()) for both in zip(labels, abouts, strict=True)),
            _pairs_section(pairs, remarks),
            _score_section(pairs),
            _kind_section(pairs, limits),
            *_group_sections(pairs),
        ],
        answers_title="Answers that changed most",
        chosen=told,
        cards=_cards(runs, pairs, numbers, choices, labels),
        choices=choices,
    )


def _pairs_section(pairs: Pairing, remarks: Sequence[str]) -> Section:
    judged = int(pairs.judged.sum())
    failed = len(pairs.places[0]) - judged
    told = [
        f"{len(pairs.places[0]):,} rows of both runs belong together, by their {pairs.by}. "
        f"{judged:,} of them have both verdicts and are compared; {failed:,} failed in one run or "
        f"in both. {pairs.alone[0]:,} rows of A and {pairs.alone[1]:,} of B have no partner.",
        *remarks,
    ]
    if others := pairs.other_questions():
        told.append(
            f"{others:,} pairs hold two different questions: the runs are not over the same "
            "input there, and their differences say little."
        )
    return Section("Pairs", told)


def _score_section(pairs: Pairing) -> Section:
    rows, points = [], []
    for score in SCORES:
        first, second = pairs.scores(score)
        change, mean = pairs.difference(score), pairs.mean_difference(score)
        there = np.isfinite(change)
        means = [float(values[there].mean()) if mean.n else None for values in (first, second)]
        rows.append(
            (
                score,
                *map(number, means),
                number(mean.value, "+.3f"),
                interval(mean, "+.3f"),
                str(int((change > _SMALL).sum())),
                str(int((change < -_SMALL).sum())),
                str(mean.n),
            )
        )
        if mean.value is not None:
            points.append((score, mean.value, mean.low, mean.high))
    header = ("score", "A", "B", "B - A", "95 % interval", "rose", "fell", "pairs")
    told = [
        "Paired differences: each answer is compared with the answer to the same question. Where "
        "the interval keeps clear of 0, the runs differ by more than the luck of these questions. "
        f"Rose and fell count changes of more than {_SMALL:g}."
    ]
    drawings = (
        [interval_svg(points, "B - A, paired", "mean difference, 95 %", 0.0)] if points else []
    )
    return Section("Scores", told, header, rows, drawings)


def _kind_section(pairs: Pairing, limits: Limits) -> Section:
    judged, meanings = pairs.judged, limits.meanings()
    rows = []
    for kind in KINDS:
        first, second = (shown & judged for shown in pairs.kinds(kind))
        counts = (first, second, second & ~first, first & ~second)
        rows.append((kind, *(str(int(one.sum())) for one in counts), meanings[kind]))
    header = ("kind", "in A", "in B", "new in B", "gone in B", "what it means")
    return Section("What is wrong", (), header, rows)


def _group_sections(pairs: Pairing) -> list[Section]:
    sections = []
    for column in pairs.first.columns:
        codes = column.codes[pairs.places[0]]
        rows, points = [], []
        for place, value in enumerate(column.values):
            among = (codes == place) & pairs.judged
            if not among.any():
                continue
            means = [pairs.mean_difference(score, among) for score in SCORES]
            cells = [f"{number(mean.value, '+.3f')} ({interval(mean, '+.3f')})" for mean in means]
            rows.append((value, str(int(among.sum())), *cells))
            if means[0].value is not None:
                points.append((short(value), means[0].value, means[0].low, means[0].high))
        header = (column.name, "pairs", *SCORES)
        drawings = (
            [interval_svg(points, f"{SCORES[0]}, B - A", "95 %", around=0.0)] if points else []
        )
        sections.append(Section(f"B - A by {column.name}", (), header, rows, drawings))
    return sections


def _changed_most(pairs: Pairing, shown: int) -> list[int]:
    """Return the numbers of the pairs to show: the largest changes of each score in turn."""
    sizes = [np.abs(pairs.difference(score)) for score in SCORES]
    largest = np.max([np.nan_to_num(size, nan=-1.0) for size in sizes], axis=0)
    orders = [np.argsort(-size, kind="stable")[: int(np.isfinite(size).sum())] for size in sizes]
    chosen: dict[int, None] = {}
    for rank in range(max(map(len, orders))):
        for order in orders:
            if rank < len(order) and len(chosen) < shown:
                chosen[int(order[rank])] = None
        if len(chosen) == shown:
            break
    return sorted(chosen, key=lambda number: (-largest[number], number))


def _cards(
    runs: tuple[Iterable[VerdictRow], Iterable[VerdictRow]],
    pairs: Pairing,
    numbers: Sequence[int],
    choices: Choices,
    labels: tuple[str, str],
) -> Iterator[Card]:
    found = []
    for rows, places in zip(runs, pairs.places, strict=True):
        wanted = {int(places[one]) for one in numbers}
        found.append({place: row for place, row in enumerate(rows) if place in wanted})
    changes = [pairs.difference(score) for score in SCORES]
    shown = {kind: pairs.kinds(kind) for kind in KINDS}
    for one in numbers:
        both = [kept[int(places[one])] for kept, places in zip(found, pairs.places, strict=True)]
        kinds = []
        for kind in KINDS:
            before, after = (bool(run[one]) for run in shown[kind])
            if before != after:
                kinds.append((_NEW if after else _GONE).format(kind))
        known = [None if np.isnan(change[one]) else float(change[one]) for change in changes]
        codes = (int(column.codes[pairs.places[0][one]]) for column in choices.columns)
        answers = [read_answer(row) for row in both]
        yield make_card(answers, choices, kinds or [_SAME], known, codes, labels)
