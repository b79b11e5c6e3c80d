"""Right and wrong responses to the same contexts share a batch and are compared in it."""

from __future__ import annotations

from dataclasses import replace

from trivet.labelled.pairs import batch_units, right_and_wrong
from trivet.records import LabelledExample, Labels, RagExample


def row(
    response: str, adherent: bool | None, contexts: tuple[str, ...] = ("a", "b")
) -> LabelledExample:
    example = RagExample("", contexts, response)
    return LabelledExample(example, Labels(adherent=adherent), "source", response)


ROWS = [
    *(row("right", True), row("wrong", False), row("also wrong", False), row("unknown", None)),
    *(row("elsewhere", False, ("c",)), row("reordered", True, ("b", "a"))),
]


def test_each_row_is_in_one_unit_and_pairs_are_of_both_kinds() -> None:
    assert batch_units(ROWS) == [(0, 1), (3,), (4,), (5, 2)]
    other = replace(ROWS[0], source="another")
    assert batch_units([other, ROWS[1]]) == [(0,), (1,)]


def test_all_pairs_of_a_batch_are_compared_but_unknown_and_empty_ones() -> None:
    known = [1, 0, 0, -1, 0, 1]
    assert sorted(right_and_wrong(ROWS, known)) == [(0, 1), (0, 2), (5, 1), (5, 2)]
    assert right_and_wrong([row(" ", True), ROWS[1]], [1, 0]) == []
