"""Rows are split by document: nothing leaks, the numbers are said, the order does not matter."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from trivet.adaptation import count_parts, count_shared, split_by_document
from trivet.records import LabelledExample, Labels, RagExample


def rows_of(
    documents: int, per_document: int = 2, split: str | None = None, start: int = 0
) -> list[LabelledExample]:
    """Return rows of documents, each with a passage of its own."""
    return [
        LabelledExample(
            RagExample(
                f"Question {n} of {d}?", (f"The lamp of tower {d} was lit that year.",), "A."
            ),
            Labels(adherent=n % 2 == 0),
            "towers",
            f"tower {d}",
            split=split,
        )
        for d in range(start, start + documents)
        for n in range(per_document)
    ]


def test_no_document_is_in_two_parts_and_none_is_lost() -> None:
    rows = split_by_document(rows_of(40), "mine")
    parts = defaultdict(set)
    for row in rows:
        parts[row.group].add(row.split)
    assert [names for names in parts.values() if len(names) > 1] == []
    assert len(rows) == 80
    assert count_parts(rows) == {"train": (44, 22), "validation": (12, 6), "test": (24, 12)}
    assert count_shared(rows) == 0


def test_the_split_does_not_depend_on_the_order_of_the_rows() -> None:
    rows = rows_of(30)
    parts = {row.example.question: row.split for row in split_by_document(rows, "mine")}
    again = split_by_document(rows[::-1], "mine")
    assert {row.example.question: row.split for row in again} == parts


def test_groups_that_share_a_passage_are_one_document() -> None:
    rows = rows_of(40)
    twin = rows_of(1, start=99)[0]
    texts = RagExample("Again?", (*rows[0].example.contexts, "Another passage."), "A.")
    shared = replace(twin, example=texts)
    groups = {row.example.question: row.group for row in split_by_document([*rows, shared], "mine")}
    assert groups["Again?"] == groups["Question 0 of 0?"] != groups["Question 0 of 1?"]


def test_rows_of_the_publishers_test_split_are_the_test_part_without_their_documents() -> None:
    test_rows = rows_of(12, split="test", start=100)
    other = replace(
        test_rows[0], split="train", example=replace(test_rows[0].example, question="Other?")
    )
    split = split_by_document([*rows_of(20), *test_rows, other], "mine")
    assert {row.example.question for row in split if row.split == "test"} == {
        row.example.question for row in test_rows
    }
    assert len(split) == 64 and "Other?" not in {row.example.question for row in split}


def test_a_part_of_large_documents_has_its_share_of_the_rows() -> None:
    rows = [*rows_of(40, per_document=1), *rows_of(20, per_document=20, start=100)]
    counts = count_parts(split_by_document(rows, "mine"))
    assert counts["test"][0] >= 0.3 * len(rows)
    assert counts["validation"][0] >= 0.15 * len(rows)


def test_rows_that_share_passages_with_other_parts_are_counted() -> None:
    passage = "Every tower of this coast has one lamp."  # in too many rows to join their groups
    rows = [
        replace(row, example=replace(row.example, contexts=(*row.example.contexts, passage)))
        for row in rows_of(40)
    ]
    split = split_by_document(rows, "mine")
    assert count_shared(split) == count_parts(split)["test"][0] > 0
