"""Two judged logs over the same questions: which rows belong together, and how they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trivet.records import DataError
from trivet.report.estimates import FloatArray, IntArray, Mean, mean_of
from trivet.report.tally import BoolArray, Tally


@dataclass(frozen=True)
class Pairing:
    """The rows that two runs have in common; m counts them.

    Attributes:
        first: The first run.
        second: The second run.
        places: Where each pair stands in the first, and in the second. *Shape:* [m] each.
        by: ``id``, or ``row`` where ids do not name the rows of both.
        alone: How many rows of the first, and of the second, have no partner.
    """

    first: Tally
    second: Tally
    places: tuple[IntArray, IntArray]
    by: str
    alone: tuple[int, int]

    @property
    def judged(self) -> BoolArray:
        """Which pairs have both verdicts. *Shape:* [m]."""
        first, second = self.places
        return ~(self.first.failed[first] | self.second.failed[second])

    def difference(self, score: str) -> FloatArray:
        """Return second minus first, NaN where one has no such score. *Shape:* [m]."""
        first, second = self.scores(score)
        return second - first

    def scores(self, score: str) -> tuple[FloatArray, FloatArray]:
        """Return a score of each pair in the first run and in the second. *Shape:* [m] each."""
        first, second = self.places
        return self.first.scores[score][first], self.second.scores[score][second]

    def kinds(self, kind: str) -> tuple[BoolArray, BoolArray]:
        """Return which pairs show a kind of failure in either run. *Shape:* [m] each."""
        first, second = self.places
        return self.first.kinds[kind][first], self.second.kinds[kind][second]

    def mean_difference(self, score: str, among: BoolArray | None = None) -> Mean:
        """Return the mean of the paired differences, over all pairs or over some."""
        change, groups = self.difference(score), self.first.groups[self.places[0]]
        if among is not None:
            change, groups = change[among], groups[among]
        return mean_of(change, groups, bounds=(-1.0, 1.0))

    def other_questions(self) -> int:
        """Return how many pairs hold two different questions, where both are at hand."""
        first, second = self.places
        asked, again = self.first.questions[first], self.second.questions[second]
        return int(((asked != again) & (asked != 0) & (again != 0)).sum())


def pair(first: Tally, second: Tally) -> Pairing:
    """Pair rows by id where every row has its own, else by their number in the input.

    Raises:
        DataError: The runs have no row in common.
    """
    by, found = "id", _shared(first.ids, second.ids)
    if not found:
        by, found = "row", _shared(first.rows.tolist(), second.rows.tolist())
    if not found:
        raise DataError(
            f"no row of one run ({len(first.rows)} rows) has the id or the number of a row of the "
            f"other ({len(second.rows)} rows): these runs cannot be compared"
        )
    places = np.array(found, dtype=np.int64).T
    alone = len(first.rows) - len(found), len(second.rows) - len(found)
    return Pairing(first, second, (places[0], places[1]), by, alone)


def _shared(
    first: Sequence[str | int | None], second: Sequence[str | int | None]
) -> list[tuple[int, int]]:
    """Return the places of names that stand in both; nothing where a name is no name."""
    places = {name: place for place, name in enumerate(second)}
    for names in (first, second):
        if None in names or len(set(names)) < len(names):
            return []
    return [(place, places[name]) for place, name in enumerate(first) if name in places]
