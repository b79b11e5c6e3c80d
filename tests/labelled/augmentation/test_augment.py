"""Augmentation depends on (seed, epoch, row) alone."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from tests.data.examples import labelled_row
from trivet.labelled.augmentation.augment import Augmentation, are_related, augment_batch, lengthen
from trivet.records import ContextSpan, LabelledExample, Labels, RagExample

# A twin follows the rows; it replaces none.
NAMES = [field.name for field in fields(Augmentation) if field.name != "twins"]
SOME = Augmentation(0.3, 0.3, 0.3, 0.3, 0.3, 0.1)


ROWS = [labelled_row(number) for number in range(40)]


def augmented(
    augmentation: Augmentation, rows: list[LabelledExample] = ROWS, seed: int = 0, epoch: int = 0
) -> list[LabelledExample]:
    return augment_batch(rows, range(len(rows)), augmentation, seed, epoch, ROWS)


def test_the_same_place_draws_the_same_and_another_place_something_else() -> None:
    first = augmented(SOME)
    assert first == augmented(SOME)
    assert first != augmented(SOME, seed=1)
    assert first != augmented(SOME, epoch=1)
    # Without an exchanged pair, the result does not depend on the other rows of the batch.
    alone = Augmentation(0.5, 0.5, 0.0, 0.5, 0.5)
    (seventh,) = augment_batch([ROWS[7]], [7], alone, 0, 0, ROWS)
    assert seventh == augmented(alone)[7]


@pytest.mark.parametrize("name", NAMES)
def test_each_probability_alters_that_share_of_the_rows(name: str) -> None:
    rows = ROWS * 10
    some = augmented(Augmentation(**{name: 0.4}), rows)
    share = sum(new is not old for new, old in zip(some, rows, strict=True)) / len(rows)
    assert share == pytest.approx(0.4, abs=0.08)
    assert all(new is old for new, old in zip(augmented(Augmentation()), ROWS, strict=True))
    every = augmented(Augmentation(**{name: 1.0}))
    assert all(new is not old for new, old in zip(every, ROWS, strict=True))


def test_inserted_contexts_come_from_an_unrelated_row() -> None:
    for old, new in zip(ROWS, augmented(Augmentation(insert_contexts=1)), strict=True):
        texts_before, texts_after = set(old.example.contexts), set(new.example.contexts)
        assert texts_before < texts_after
        assert 1 <= len(texts_after - texts_before) <= 3
    huge = LabelledExample(RagExample("?", ("x" * 9000,), "y"), Labels(adherent=True), "a", "huge")
    (new,) = augment_batch([ROWS[0]], [0], Augmentation(insert_contexts=1), 0, 0, [huge])
    assert new is ROWS[0], "a passage that dwarfs the example would be read in its place"


def test_the_pair_comes_from_the_batch_and_only_then_from_the_pool() -> None:
    batch = ROWS[:4]
    asked = {other.example.question for other in batch}
    for old, new in zip(batch, augmented(Augmentation(shuffle=1), batch), strict=True):
        assert new.example.question in asked - {old.example.question}
        assert new.labels.adherent is False
    (new,) = augment_batch([ROWS[0]], [0], Augmentation(shuffle=1), 0, 0, ROWS)
    assert new.example.question != ROWS[0].example.question


@pytest.mark.parametrize(
    ("shared", "labels", "related"),
    [
        ({}, None, False),
        ({"contexts": labelled_row(1).example.contexts}, None, True),
        ({"response": labelled_row(1).example.response}, Labels(adherent=True), True),
        # An instruction that is put to all says nothing without labels of relevance.
        ({"question": labelled_row(1).example.question}, None, True),
        ({"question": labelled_row(1).example.question}, Labels(adherent=True), False),
    ],
)
def test_rows_that_may_support_or_answer_each_other_are_related(
    shared: dict[str, Any], labels: Labels | None, related: bool
) -> None:
    row, other = labelled_row(1), labelled_row(2)
    row, other = (replace(labelled, labels=labels or labelled.labels) for labelled in (row, other))
    alike = replace(other, example=replace(other.example, **shared))
    assert are_related(row, alike) is are_related(alike, row) is related
    assert are_related(row, replace(alike, group=row.group))


def test_nothing_is_taken_from_a_related_row() -> None:
    kin = [labelled_row(1, group="one"), labelled_row(2, group="one")]
    both = Augmentation(insert_contexts=1, shuffle=1)
    assert augment_batch(kin, [0, 1], both, 0, 0, kin) == kin
    assert augment_batch([kin[0]], [0], both, 0, 0, []) == [kin[0]]


def test_foreign_contexts_are_not_those_of_the_pair_that_was_taken() -> None:
    """They would support it and answer its question."""
    both = Augmentation(insert_contexts=1, shuffle=1)
    pool = [labelled_row(1), labelled_row(2)]
    new, _ = augment_batch(pool, [0, 1], both, 0, 0, pool)
    assert new.example.question == "What is 2?"
    assert new.example.contexts == pool[0].example.contexts
    three = [*pool, labelled_row(3)]
    new, _ = augment_batch(pool, [0, 1], both, 0, 0, three)
    inserted = set(new.example.contexts) - set(pool[0].example.contexts)
    assert inserted
    assert inserted <= set(three[2].example.contexts)


SHORT = [labelled_row(number, contexts=2) for number in range(6)]


def marked(labelled: LabelledExample, spans: tuple[ContextSpan, ...] | None) -> list[str]:
    contexts = labelled.example.contexts
    return [contexts[span.context][span.start : span.end] for span in spans or ()]


def test_every_row_gets_passages_of_others_and_keeps_its_own_with_their_marks() -> None:
    for before, after in zip(SHORT, lengthen(SHORT, 7, seed=0), strict=True):
        contexts_before, contexts = before.example.contexts, after.example.contexts
        assert len(contexts) == len(set(contexts)) == len(contexts_before) + 7
        assert [text for text in contexts if text in contexts_before] == list(contexts_before)
        assert after.example.response == before.example.response
        old, new = before.labels, after.labels
        assert (new.unsupported, new.adherent) == (old.unsupported, old.adherent)
        assert marked(after, new.relevant) == marked(before, old.relevant)
        assert marked(after, new.utilized) == marked(before, old.utilized)
        assert old.evidence is not None and new.evidence is not None
        assert marked(after, new.evidence[0].contexts) == marked(before, old.evidence[0].contexts)
        # One sentence of two is relevant to begin with, and no longer afterwards.
        assert (new.relevance, new.utilization) == (None, None)


def test_rows_of_one_document_lend_each_other_nothing() -> None:
    rows = [labelled_row(number, group="same") for number in (0, 1)] + SHORT[2:]
    lengthened = lengthen(rows, 8, seed=0)
    assert not any("Passage 1" in text for text in lengthened[0].example.contexts)
