"""Augmentation depends on (seed, epoch, row) alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace

import pytest

from tests.data.examples import labelled_row as row
from trivet.data.labelled.augmentation.augment import Augmentation, augment_batch
from trivet.records import LabelledExample, Labels, RagExample

# A twin follows the rows; it replaces none.
NAMES = [field.name for field in fields(Augmentation) if field.name != "twins"]
SOME = Augmentation(0.3, 0.3, 0.3, 0.3, 0.3, 0.1)


ROWS = [row(number) for number in range(40)]


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


def test_some_contexts_are_dropped_and_never_all() -> None:
    counts = Counter(len(new.example.contexts) for new in augmented(Augmentation(drop_contexts=1)))
    assert set(counts) == {1, 2}
    single = [row(1, contexts=1)]
    assert augmented(Augmentation(drop_contexts=1), single) == single


def test_inserted_contexts_come_from_an_unrelated_row() -> None:
    for old, new in zip(ROWS, augmented(Augmentation(insert_contexts=1)), strict=True):
        own, found = set(old.example.contexts), set(new.example.contexts)
        assert own < found
        assert 1 <= len(found - own) <= 3
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


def test_rows_that_share_a_group_or_a_context_are_related() -> None:
    kin = [row(1, group="one"), row(2, group="one")]
    both = Augmentation(insert_contexts=1, shuffle=1)
    assert augment_batch(kin, [0, 1], both, 0, 0, kin) == kin
    same = [row(1, group="one"), row(1, group="two")]
    assert augment_batch(same, [0, 1], both, 0, 0, same) == same
    assert augment_batch([kin[0]], [0], both, 0, 0, []) == [kin[0]]


def test_foreign_contexts_are_not_those_of_the_pair_that_was_taken() -> None:
    """They would support it and answer its question."""
    both = Augmentation(insert_contexts=1, shuffle=1)
    pool = [row(1), row(2)]
    new, _ = augment_batch(pool, [0, 1], both, 0, 0, pool)
    assert new.example.question == "What is 2?"
    assert new.example.contexts == pool[0].example.contexts
    three = [*pool, row(3)]
    new, _ = augment_batch(pool, [0, 1], both, 0, 0, three)
    inserted = set(new.example.contexts) - set(pool[0].example.contexts)
    assert inserted
    assert inserted <= set(three[2].example.contexts)


@pytest.mark.parametrize("name", ["insert_contexts", "shuffle"])
@pytest.mark.parametrize("text", ["question", "response"])
def test_rows_with_the_same_question_or_response_are_related(name: str, text: str) -> None:
    own, other = row(1), row(2)
    same = {text: getattr(own.example, text)}
    alike = replace(other, example=replace(other.example, **same))
    alter = Augmentation(**{name: 1})
    assert augment_batch([own], [0], alter, 0, 0, [alike]) == [own]
    asked = [replace(one, labels=Labels(adherent=True)) for one in (own, alike)]
    found = augment_batch(asked[:1], [0], alter, 0, 0, asked[1:])
    told = "an instruction that is put to all says nothing of relevance; the same answer does"
    assert (found != asked[:1]) == (text == "question"), told


def test_an_unrelated_row_of_the_same_source_is_preferred() -> None:
    pool = [row(number, source="b" if number % 2 else "a") for number in range(10, 30)]
    ours = [row(number) for number in range(10)]
    taken = augment_batch(ours, range(10), Augmentation(insert_contexts=1), 0, 0, pool)
    foreign = {text for new in taken for text in new.example.contexts}
    theirs = {text for other in pool if other.source == "b" for text in other.example.contexts}
    assert len(foreign & theirs) <= 3


def test_only_rows_with_relevance_get_a_foreign_response() -> None:
    every = Augmentation(foreign_response=1)
    known = [replace(old, labels=replace(old.labels, relevance=0.5)) for old in ROWS]
    for old, new in zip(known, augmented(every, known), strict=True):
        assert new.example.question == old.example.question
        assert new.example.response != old.example.response
        assert new.labels.relevance == 0.5
    unknown = [replace(old, labels=Labels(adherent=True)) for old in ROWS]
    assert augmented(every, unknown) == unknown


def test_nothing_is_altered_that_would_leave_nothing_known() -> None:
    verdict = [replace(old, labels=Labels(adherent=True)) for old in ROWS]
    loses = Augmentation(drop_contexts=1, empty_response=1)
    assert augmented(loses, verdict) == verdict


def test_a_probability_outside_its_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"shuffle \(1.5\) must be a probability"):
        Augmentation(shuffle=1.5)
