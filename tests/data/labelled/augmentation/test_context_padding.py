"""Rows with foreign passages: the same text every time, and labels that stay true."""

from __future__ import annotations

import pytest

from tests.data.examples import labelled_row
from trivet.data.labelled.augmentation.context_padding import lengthen
from trivet.errors import DataError
from trivet.records import ContextSpan, LabelledExample

ROWS = [labelled_row(number, contexts=2) for number in range(6)]


def marked(labelled: LabelledExample, spans: tuple[ContextSpan, ...] | None) -> list[str]:
    contexts = labelled.example.contexts
    return [contexts[span.context][span.start : span.end] for span in spans or ()]


def test_every_row_gets_passages_of_others_and_keeps_its_own_with_their_marks() -> None:
    for before, after in zip(ROWS, lengthen(ROWS, 7, seed=0), strict=True):
        own, contexts = before.example.contexts, after.example.contexts
        assert len(contexts) == len(set(contexts)) == len(own) + 7
        assert [text for text in contexts if text in own] == list(own)
        assert after.example.response == before.example.response
        old, new = before.labels, after.labels
        assert (new.unsupported, new.adherent) == (old.unsupported, old.adherent)
        assert marked(after, new.relevant) == marked(before, old.relevant)
        assert marked(after, new.utilized) == marked(before, old.utilized)
        assert old.evidence is not None and new.evidence is not None
        assert marked(after, new.evidence[0].contexts) == marked(before, old.evidence[0].contexts)
        # One sentence of two is relevant to begin with, and no longer afterwards.
        assert (new.relevance, new.utilization) == (None, None)


def test_the_same_seed_gives_the_same_rows_and_none_changes_nothing() -> None:
    assert lengthen(ROWS, 5, seed=0) == lengthen(ROWS, 5, seed=0)
    assert lengthen(ROWS, 5, seed=0) != lengthen(ROWS, 5, seed=1)
    assert lengthen(ROWS, 0, seed=0) == ROWS


def test_rows_of_one_document_lend_each_other_nothing() -> None:
    rows = [labelled_row(number, group="same") for number in (0, 1)] + ROWS[2:]
    lengthened = lengthen(rows, 8, seed=0)
    assert not any("Passage 1" in text for text in lengthened[0].example.contexts)


def test_more_passages_than_unrelated_rows_have_are_refused_with_the_numbers() -> None:
    with pytest.raises(DataError, match=r"row 0 \(group-0\).* have 10 passages, not 11"):
        lengthen(ROWS, 11, seed=0)
