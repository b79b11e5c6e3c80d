"""Two runs over the same questions, paired: a page, and lines for a gate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trivet.errors import DataError
from trivet.measures.curves import BoolArray, FloatArray, IntArray
from trivet.report.answer import read_answer
from trivet.report.pages import Section, interval, render, with_interval
from trivet.report.plots import interval_svg
from trivet.report.tally import KINDS, MIN_GROUPS, Mean, Tally, mean_of, tally
from trivet.report.terminal import number
from trivet.report.verdict_files import VerdictFile, VerdictRow
from trivet.report.verdicts_page import SHOWN, Card, FilterChoices, short, take_in_turn
from trivet.report.wording import SUPPORTED
from trivet.verdict_json import SCORES

_MIN_CHANGE = 0.05  # of a score that rose or fell
_NEW, _GONE = "newly {}", "no longer {}"
_SAME = "same verdict"


@dataclass(frozen=True)
class Pairing:
    """The m rows that two runs have in common, in the same order."""

    first: Tally
    second: Tally
    places: tuple[IntArray, IntArray]  # indices in all rows of either run, [m] each
    by: str  # "id", or "row" if identifiers are missing or repeated
    alone: tuple[int, int]  # number of unpaired rows in either run

    @property
    def evaluated(self) -> BoolArray:
        """True for pairs with both verdicts, [m]."""
        return ~(self.first.failed | self.second.failed)

    @property
    def kinds(self) -> dict[str, tuple[BoolArray, BoolArray]]:
        """Pairs with both verdicts of each kind that occurs, in either run, [m] each."""
        first, second, known = self.first.kinds, self.second.kinds, self.evaluated
        both = {kind: (first[kind] & known, second[kind] & known) for kind in KINDS}
        return {kind: members for kind, members in both.items() if np.any(members)}

    def difference(self, score: str) -> FloatArray:
        """Return second minus first, NaN if either is missing, [m]."""
        return self.second.scores[score] - self.first.scores[score]

    def mean_difference(self, score: str, among: BoolArray | slice = slice(None)) -> Mean:
        """Return the mean of the paired differences, over all pairs or over some."""
        return mean_of(self.difference(score)[among], self.first.groups[among], (-1.0, 1.0))

    def other_questions(self) -> int:
        """Return the number of pairs whose questions are known and differ."""
        first, second = self.first.questions, self.second.questions
        return int(((first != second) & (first != 0) & (second != 0)).sum())


def pair(first: Tally, second: Tally) -> Pairing:
    """Pair rows by identifier if these are unique in both runs, else by row number.

    Raises:
        DataError: The runs have no row in common.
    """
    by, shared = "id", _shared(first.ids, second.ids)
    if not shared:
        by, shared = "row", _shared(first.rows.tolist(), second.rows.tolist())
    if not shared:
        raise DataError(
            f"no row of one run ({len(first.rows)} rows) has the id or the number of a row of the "
            f"other ({len(second.rows)} rows): these runs cannot be compared"
        )
    left, other = np.array(shared, dtype=np.int64).T
    alone = len(first.rows) - len(shared), len(second.rows) - len(shared)
    return Pairing(first.take(left), second.take(other), (left, other), by, alone)


def _shared(
    first: Sequence[str | int | None], second: Sequence[str | int | None]
) -> list[tuple[int, int]]:
    """Return index pairs of names in both; nothing if a name is missing or repeated."""
    for names in (first, second):
        if None in names or len(set(names)) < len(names):
            return []
    places = {name: index for index, name in enumerate(second)}
    return [(index, places[name]) for index, name in enumerate(first) if name in places]


def render_comparison(
    runs: tuple[Iterable[VerdictRow], Iterable[VerdictRow]],
    names: tuple[str, str],
    abouts: tuple[Mapping[str, str], Mapping[str, str]],
    *,
    remarks: Sequence[str] = (),
    by: Sequence[str] = (),
    shown: int = SHOWN,
) -> str:
    """Return the page of two runs, with arguments as for `render_verdicts`.

    Raises:
        DataError: A run is empty, they have no row in common, or no row has a column of ``by``.
    """
    pairs = pair(tally(runs[0], by), tally(runs[1]))
    labels = (f"A: {names[0]}", f"B: {names[1]}")
    changes = [name for name, changed in _changes(pairs).items() if changed.any()]
    scores = [f"change of {score}" for score in SCORES]
    good = [*map(_GONE.format, KINDS), _SAME]
    choices = FilterChoices([*changes, _SAME], scores, pairs.first.columns, good)
    numbers = _changed_most(pairs, shown)
    left_out = int(pairs.evaluated.sum()) - len(numbers)
    note = (
        f"The page shows the {len(numbers):,} pairs with the largest changes, by each score in "
        f"turn, and leaves out {left_out:,}. A change is the score in B minus the score in A."
    )
    return render(
        "cards.html",
        "cards.js",
        title=f"{names[0]} and {names[1]} compared",
        strip=None,
        before=[_pairs_section(pairs, remarks)],
        answers_title="Answers that changed most",
        answers_notes=[note],
        cards=_cards(runs, pairs, numbers, labels),
        choices=choices,
        after=[
            _score_section(pairs),
            _kind_section(pairs),
            *_group_sections(pairs),
            *(
                Section(label, (), ("", ""), list(about.items()))
                for label, about in zip(labels, abouts, strict=True)
            ),
        ],
    )


def _pairs_section(pairs: Pairing, remarks: Sequence[str]) -> Section:
    both, count = int(pairs.evaluated.sum()), len(pairs.first.rows)
    paragraphs = [
        f"{count:,} rows are paired by their {pairs.by}. {both:,} pairs have both verdicts and are "
        f"compared; {count - both:,} failed in at least one run. "
        f"{pairs.alone[0]:,} rows of A and {pairs.alone[1]:,} of B have no partner.",
        *remarks,
    ]
    if others := pairs.other_questions():
        paragraphs.append(
            f"{others:,} pairs have two different questions: the runs are not over the same "
            "input, and the differences of these pairs mean little."
        )
    return Section("Pairs", paragraphs)


def _score_section(pairs: Pairing) -> Section:
    rows, points = [], []
    for score in SCORES:
        change, mean = pairs.difference(score), pairs.mean_difference(score)
        both = np.isfinite(change)
        means = [
            float(run.scores[score][both].mean()) if mean.n else None
            for run in (pairs.first, pairs.second)
        ]
        rose, fell = int((change > _MIN_CHANGE).sum()), int((change < -_MIN_CHANGE).sum())
        difference = number(mean.value, "+.3f"), interval(mean.low, mean.high, "+.3f")
        rows.append((score, *map(number, means), *difference, str(rose), str(fell), str(mean.n)))
        if mean.value is not None:
            points.append((score, mean.value, mean.low, mean.high))
    header = ("score", "A", "B", "B - A", "95 % interval", "rose", "fell", "pairs")
    paragraph = (
        "Paired differences: each answer is compared with the answer to the same question. An "
        "interval without 0 means that the difference is unlikely to be chance. Rose and fell "
        f"count changes above {_MIN_CHANGE:g}."
    )
    drawings = [interval_svg(points, "B - A, paired", "mean difference, 95 %", 0.0)]
    return Section("Scores", [paragraph], header, rows, drawings if points else ())


def _changes(pairs: Pairing) -> dict[str, BoolArray]:
    """Return which pairs became of a kind or left it, [m] each, by the words for that."""
    changes: dict[str, BoolArray] = {}
    for kind, (first, second) in pairs.kinds.items():
        if kind != SUPPORTED:  # which the other words tell
            changes |= {_NEW.format(kind): second & ~first, _GONE.format(kind): first & ~second}
    return changes


def _kind_section(pairs: Pairing) -> Section:
    rows = []
    for kind, (first, second) in pairs.kinds.items():
        counts = (first, second, second & ~first, first & ~second)
        rows.append((kind, *(str(int(count.sum())) for count in counts)))
    header = ("verdict", "in A", "in B", "new in B", "gone in B")
    return Section("Verdicts", (), header, rows)


def _group_sections(pairs: Pairing) -> list[Section]:
    sections = []
    for column in pairs.first.columns:
        rows, points = [], []
        for code, value in enumerate(column.values):
            among = (column.codes == code) & pairs.evaluated
            if not among.any():
                continue
            means = [pairs.mean_difference(score, among) for score in SCORES]
            cells = [with_interval(mean.value, mean.low, mean.high, "+.3f") for mean in means]
            rows.append((value, str(int(among.sum())), *cells))
            if means[0].value is not None:
                points.append((short(value), means[0].value, means[0].low, means[0].high))
        header = (column.name, "pairs", *SCORES)
        drawings = [interval_svg(points, f"{SCORES[0]}, B - A", "95 %", 0.0)] if points else []
        sections.append(Section(f"B - A by {column.name}", (), header, rows, drawings))
    return sections


def _changed_most(pairs: Pairing, shown: int) -> list[int]:
    """Return the indices of the pairs to show: the largest changes of each score in turn."""
    sizes = [np.abs(pairs.difference(score)) for score in SCORES]
    largest = np.max([np.nan_to_num(size, nan=-1.0) for size in sizes], axis=0)
    orders = [np.argsort(-size, kind="stable")[: int(np.isfinite(size).sum())] for size in sizes]
    return sorted(take_in_turn(orders, shown), key=lambda index: (-largest[index], index))


def _cards(
    runs: tuple[Iterable[VerdictRow], Iterable[VerdictRow]],
    pairs: Pairing,
    numbers: Sequence[int],
    labels: tuple[str, str],
) -> Iterator[Card]:
    kept_rows = []
    for rows, places in zip(runs, pairs.places, strict=True):
        wanted = {int(places[index]) for index in numbers}
        kept_rows.append({index: row for index, row in enumerate(rows) if index in wanted})
    changed, changes = _changes(pairs), [pairs.difference(score) for score in SCORES]
    for index in numbers:
        both = [
            kept[int(places[index])] for kept, places in zip(kept_rows, pairs.places, strict=True)
        ]
        kinds = [name for name, members in changed.items() if members[index]] or [_SAME]
        known = [None if np.isnan(change[index]) else float(change[index]) for change in changes]
        codes = [int(column.codes[index]) for column in pairs.first.columns]
        answers = [read_answer(row, f"{run}{row.row}") for run, row in zip("ab", both, strict=True)]
        yield Card(answers, kinds, kinds, known, codes, labels)


_SCORE = "faithfulness"
_FELL = 0.05  # smaller changes are not listed
_MAX_ROWS = 20


@dataclass(frozen=True)
class Regression:
    """Differences of a new run from its baseline."""

    pairs: Pairing  # rows of both

    @property
    def worse(self) -> bool:
        """Whether faithfulness fell by more than chance: its 95 % interval lies below 0."""
        high = self.pairs.mean_difference(_SCORE).high
        return high is not None and high < 0

    def lines(self) -> Iterator[str]:
        """Yield the differences of the scores, and the rows whose faithfulness fell."""
        first, second = self.pairs.first, self.pairs.second
        both = int(self.pairs.evaluated.sum())
        yield f"{both} rows in both runs, paired by {self.pairs.by}"
        if any(self.pairs.alone):
            old, new = self.pairs.alone
            yield f"{old} rows are only in the baseline, {new} only in the new run"
        if other := self.pairs.other_questions():
            yield f"{other} pairs have different questions"
        for score in SCORES:
            mean = self.pairs.mean_difference(score)
            if mean.value is not None:
                text = f"{score} {mean.value:+.3f}"
                if mean.low is not None and mean.high is not None:
                    text += f" (95 % interval {mean.low:+.3f} to {mean.high:+.3f}, n {mean.n})"
                else:
                    text += f" (n {mean.n}; an interval needs {MIN_GROUPS} questions)"
                yield text
        change = self.pairs.difference(_SCORE)
        fell = np.flatnonzero(change < -_FELL)
        yield f"{len(fell)} rows fell in {_SCORE} by more than {_FELL:g}"
        for index in fell[np.argsort(change[fell], kind="stable")][:_MAX_ROWS]:
            before, after = first.scores[_SCORE][index], second.scores[_SCORE][index]
            name = f"row {second.rows[index]}, id {second.ids[index]}"
            yield f"  {name}: {before:.3f} -> {after:.3f}"
        if len(fell) > _MAX_ROWS:
            yield f"  and {len(fell) - _MAX_ROWS} more"


def compare(baseline: Path, verdicts: Path) -> Regression:
    """Compare two verdict files.

    Raises:
        DataError: One has no verdicts, or they have no row in common.
    """
    return Regression(pair(tally(VerdictFile(baseline)), tally(VerdictFile(verdicts))))
