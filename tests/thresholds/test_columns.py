"""Thresholds: found as an exhaustive search would find them, with bounds that hold."""

from __future__ import annotations

import logging

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.measures.verdicts import dev_scores as scores
from trivet.bundle.info import Thresholds
from trivet.measures.best_threshold import best_threshold
from trivet.measures.false_alarms import conformal_threshold
from trivet.records import Span
from trivet.thresholds.choose import choose_thresholds
from trivet.thresholds.columns import DevScores, marked_words, threshold_columns

FloatArray = npt.NDArray[np.float64]
things = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=25
)


def f1_at(threshold: float, support: FloatArray, gold: FloatArray, size: FloatArray) -> float:
    flagged = support < threshold
    return float(2 * gold[flagged].sum() / (size[flagged].sum() + gold.sum()))


@given(things)
def test_no_threshold_is_better(drawn: list[tuple[float, int, int]]) -> None:
    support = np.array([thing[0] for thing in drawn])
    gold = np.array([float(thing[1]) for thing in drawn])
    size = gold + np.array([float(thing[2]) for thing in drawn])
    chosen = best_threshold(support, gold, size)
    if not 0 < gold.sum() < size.sum():
        assert chosen is None
        return
    candidates = [*support.tolist(), 1.0]
    best = max(f1_at(candidate, support, gold, size) for candidate in candidates)
    if chosen is None:  # only where everything has a support of 1
        assert best == 0
        return
    assert 0 < chosen.threshold <= 1
    assert chosen.f1 == pytest.approx(best)
    assert f1_at(chosen.threshold, support, gold, size) == pytest.approx(chosen.f1)


def test_the_threshold_is_half_way_between_what_it_separates() -> None:
    chosen = best_threshold(np.array([0.1, 0.3, 0.7, 0.9]), np.array([1.0, 1.0, 0.0, 0.0]))
    assert chosen is not None and (chosen.threshold, chosen.f1) == pytest.approx((0.5, 1.0))
    low = 0.25  # the middle of it and the next number rounds to it
    high = float(np.nextafter(low, 1))
    chosen = best_threshold(np.array([low, high]), np.array([1.0, 0.0]))
    assert chosen is not None and low < chosen.threshold <= high


def row_of(text: str, sentences: list[float], wrong: tuple[Span, ...] | None) -> DevScores:
    """Return scores of sentences "aa b.": "aa" has the sentence's support, "b" .99."""
    spans = [(5 * i, 5 * i + 5, value) for i, value in enumerate(sentences)]
    tokens = [(start, start + 2, value) for start, _, value in spans]
    tokens += [(start + 3, start + 4, 0.99) for start, _, _ in spans]
    return scores(text, wrong, None if wrong is None else not wrong, spans, sorted(tokens))


FIVE = ("aa b.aa b.", [0.2, 0.9], (Span(0, 2),)), ("aa b.", [0.3], (Span(0, 2),))
ROWS = [row_of(*FIVE[0]), row_of(*FIVE[1]), row_of("aa b.", [0.7], ()), row_of("aa b.", [0.8], ())]


def test_a_response_counts_by_its_weakest_sentence_and_words_in_unsupported_ones_alone() -> None:
    thresholds = choose_thresholds(ROWS, None)
    sentence, span = thresholds.sentence, thresholds.span
    assert sentence == pytest.approx((0.3 + 0.7) / 2)
    assert 0.3 < span < 0.99
    words = threshold_columns(ROWS)["span"]
    marked = marked_words(words, sentence, span)
    assert words.support[marked].tolist() == pytest.approx([0.2, 0.3])
    # Without a word below the span threshold, the whole sentence is marked.
    assert marked_words(words, sentence, 0.1).sum() == 4


def test_sentences_and_words_at_their_threshold_are_supported() -> None:
    words = threshold_columns([row_of("aa b.", [0.5], (Span(0, 2),))])["span"]
    assert marked_words(words, 0.5, 0.75).sum() == 0
    assert marked_words(words, 0.75, float(words.support[1])).sum() == 1
    # No word is below the span threshold, so the whole sentence is marked.
    assert marked_words(words, 0.75, 0.5).sum() == 2


def test_a_token_that_begins_with_the_space_belongs_to_the_word_after_it() -> None:
    tokens = [(0, 2, 0.9), (2, 5, 0.1), (5, 8, 0.9)]
    score = scores("aa bb cc", (Span(3, 5),), False, [(0, 8, 0.1)], tokens)
    assert threshold_columns([score])["span"].support.tolist() == pytest.approx([0.9, 0.1, 0.9])


def test_unknown_labels_are_left_out_and_defaults_said(caplog: pytest.LogCaptureFixture) -> None:
    known = row_of("aa b.", [0.6], ())
    unknown = row_of("aa b.", [0.1], None)
    with caplog.at_level(logging.WARNING):
        assert choose_thresholds([known, unknown]) == Thresholds(0.5, 0.5)
    assert "sentence threshold stays at 0.5: the labels of 1 dev examples" in caplog.text


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), min_size=1, max_size=40),
    st.sampled_from([0.05, 0.2, 0.5]),
)
def test_no_higher_threshold_keeps_the_bound(drawn: list[tuple[int, int]], rate: float) -> None:
    support = np.array([value / 10 for value, _ in drawn])
    documents = [str(document) for _, document in drawn]

    def bound(threshold: float) -> float:
        flagged: dict[str, list[bool]] = {}
        for value, document in zip(support, documents, strict=True):
            flagged.setdefault(document, []).append(bool(value < threshold))
        return (sum(sum(flags) / len(flags) for flags in flagged.values()) + 1) / (len(flagged) + 1)

    chosen = conformal_threshold(support, documents, rate)
    good = [value for value in [*support.tolist(), 1.0] if bound(value) <= rate + 1e-9]
    assert chosen == (max(good) if good else None)
