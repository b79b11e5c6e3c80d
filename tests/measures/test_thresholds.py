"""Thresholds: best F1 of what is unsupported, found as an exhaustive search would find it."""

from __future__ import annotations

import logging

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.measures.verdicts import dev_scores as scores
from trivet.measures.thresholds import best_threshold, choose_thresholds
from trivet.records import Span

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
    found = best_threshold(support, gold, size)
    if not 0 < gold.sum() < size.sum():
        assert found is None
        return
    candidates = [*support.tolist(), 1.0]
    best = max(f1_at(candidate, support, gold, size) for candidate in candidates)
    if found is None:  # only where everything has a support of 1
        assert best == 0
        return
    assert 0 < found.threshold <= 1
    assert found.f1 == pytest.approx(best)
    assert f1_at(found.threshold, support, gold, size) == pytest.approx(found.f1)


def test_the_threshold_is_half_way_between_what_it_separates() -> None:
    found = best_threshold(np.array([0.1, 0.3, 0.7, 0.9]), np.array([1.0, 1.0, 0.0, 0.0]))
    assert found is not None and (found.threshold, found.f1) == pytest.approx((0.5, 1.0))
    low = 0.25  # the middle of it and the next number rounds to it
    high = float(np.nextafter(low, 1))
    found = best_threshold(np.array([low, high]), np.array([1.0, 0.0]))
    assert found is not None and low < found.threshold <= high


def test_each_threshold_is_chosen_from_its_own_numbers() -> None:
    # "Red fox." is supported, "Blue owls sang." is not but for its first word.
    support = [0.9, 0.9, 0.9, 0.7, 0.1, 0.9, 0.3, 0.9]
    at = [(0, 3), (4, 7), (7, 8), (9, 13), (14, 18), (19, 21), (21, 23), (23, 24)]
    tokens = [(*span, value) for span, value in zip(at, support, strict=True)]
    text = "Red fox. Blue owls sang."  # "sa" + "ng": one word, flagged by its second half
    one = scores(text, (Span(14, 23),), False, 0.2, [(0, 8, 0.8), (9, 24, 0.4)], tokens)
    tokens = [(0, 3, 0.9), (4, 7, 0.8), (7, 8, 0.9)]
    other = scores("Red fox.", (), True, 0.6, [(0, 8, 0.9)], tokens)
    chosen = choose_thresholds([one, other])
    values = {name: best and (best.threshold, best.f1) for name, best in chosen.items()}
    assert values["adherence"] == pytest.approx((0.4, 1.0))
    assert values["sentence"] == pytest.approx((0.6, 1.0))
    assert values["span"] == pytest.approx((0.5, 1.0))


def test_a_token_that_begins_with_the_space_belongs_to_the_word_after_it() -> None:
    tokens = [(0, 2, 0.9), (2, 5, 0.1), (5, 8, 0.9)]
    one = scores("aa bb cc", (Span(3, 5),), False, 0.1, [(0, 8, 0.1)], tokens)
    best = choose_thresholds([one])["span"]
    assert best is not None and (best.threshold, best.f1) == pytest.approx((0.5, 1.0))


def test_unknown_labels_are_left_out_and_defaults_said(caplog: pytest.LogCaptureFixture) -> None:
    known = scores("Red fox.", None, True, 0.6, [(0, 8, 0.9)], [(0, 3, 0.9)])
    unknown = scores("Red fox.", None, None, 0.1, [(0, 8, 0.1)], [(0, 3, 0.1)])
    with caplog.at_level(logging.WARNING):
        chosen = choose_thresholds([known, unknown])
    assert chosen == {"adherence": None, "sentence": None, "span": None}
    assert "adherence threshold stays at 0.5: the labels of 1 dev examples" in caplog.text
    assert "span threshold stays at 0.5: the labels of 0 dev examples" in caplog.text


def test_an_empty_response_changes_nothing() -> None:
    full = scores("aa bb", (Span(3, 5),), False, 0.1, [(0, 5, 0.1)], [(0, 2, 0.9), (3, 5, 0.1)])
    empty = scores("", (), None, None, [], [])
    assert choose_thresholds([full, empty]) == choose_thresholds([full])
