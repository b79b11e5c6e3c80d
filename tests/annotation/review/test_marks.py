"""Labels become marks and marks become labels, without a loss where nothing was changed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.annotation.review.marks import Marks, Sheet
from trivet.records import ContextSpan, Evidence, LabelledExample, Labels, RagExample, Span

RESPONSE = "The mill is old. It was built in 1,790 of stone."
CONTEXTS = ("The mill is old. Nobody keeps it.", "It was built in 1790.")
EXAMPLE = RagExample("How old is the mill?", CONTEXTS, RESPONSE, "m")
OLD = Labels(
    unsupported=(Span(34, 37),),  # "790" of the word "1,790"
    adherent=False,
    relevant=(ContextSpan(0, 0, 8),),
    utilized=(),
    evidence=(Evidence(Span(0, 16), (ContextSpan(0, 0, 16),)),),
    relevance=0.5,
    completeness=1.0,
)
LABELLED = LabelledExample(EXAMPLE, OLD, "mills", "mill")
SHEET = Sheet(EXAMPLE)


def test_words_and_sentences_that_a_span_touches_are_marked() -> None:
    marks = SHEET.marks(OLD)
    words = [RESPONSE[word.start : word.end] for sentence in SHEET.response for word in sentence]
    assert [words[n] for n in sorted(marks.unsupported or ())] == ["1,790"]
    assert marks.relevant == frozenset({0})
    assert marks.utilized == frozenset()
    assert SHEET.marks(Labels()) == Marks(None, None, None)


def test_unchanged_marks_keep_every_label_to_the_character() -> None:
    assert SHEET.apply(LABELLED, SHEET.marks(OLD)) == (LABELLED, [])


def test_marked_words_become_one_span_each_run_within_a_sentence() -> None:
    words = [word for sentence in SHEET.response for word in sentence]
    numbers = frozenset({3, 4, 5, 6, 9})  # "old", "." | "It", "was" | "1,790"
    new, changed = SHEET.apply(LABELLED, replace(SHEET.marks(OLD), unsupported=numbers))
    texts = [RESPONSE[span.start : span.end] for span in new.labels.unsupported or ()]
    assert texts == ["old.", "It was", RESPONSE[words[9].start : words[9].end]]
    assert changed == ["unsupported"]
    assert new.labels.adherent is False
    assert new.labels.evidence == ()  # its sentence is unsupported now
    assert new.labels.relevant == OLD.relevant


def test_no_mark_means_supported_and_unknown_means_neither() -> None:
    none, _ = SHEET.apply(LABELLED, replace(SHEET.marks(OLD), unsupported=frozenset()))
    assert (none.labels.unsupported, none.labels.adherent) == ((), True)
    unknown, _ = SHEET.apply(LABELLED, replace(SHEET.marks(OLD), unsupported=None))
    assert (unknown.labels.unsupported, unknown.labels.adherent) == (None, None)


def test_a_score_that_no_longer_follows_from_its_sentences_is_removed() -> None:
    marks = replace(SHEET.marks(OLD), relevant=frozenset({1, 2}))
    new, changed = SHEET.apply(LABELLED, marks)
    assert new.labels.relevant == (ContextSpan(0, 17, 33), ContextSpan(1, 0, 21))
    assert (new.labels.relevance, new.labels.completeness) == (None, None)
    assert changed == ["relevant"]
    assert SHEET.apply(LABELLED, replace(marks, relevant=None))[0].labels.relevant is None


@pytest.mark.parametrize("field", ["unsupported", "relevant", "utilized"])
@pytest.mark.parametrize("number", [-1, 99])
def test_a_mark_on_nothing_is_refused(field: str, number: int) -> None:
    with pytest.raises(ValueError, match=f"{field}: there is no number {number}, only 0 to"):
        SHEET.apply(LABELLED, replace(SHEET.marks(OLD), **{field: frozenset({number})}))


@given(st.sets(st.integers(0, 12)), st.sets(st.integers(0, 2)), st.sets(st.integers(0, 2)))
def test_saved_marks_are_read_back_as_they_were(
    words: set[int], relevant: set[int], utilized: set[int]
) -> None:
    marks = Marks(frozenset(words), frozenset(relevant), frozenset(utilized))
    assert SHEET.marks(SHEET.apply(LABELLED, marks)[0].labels) == marks
