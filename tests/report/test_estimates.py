"""Means and intervals: by hand, against another library, and with questions that repeat."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.report.tally import MIN_GROUPS, mean_of, student

NOTHING = float("nan")


@pytest.mark.parametrize("degrees", [5, 6, 10, 30, 500])
def test_the_series_is_students(degrees: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    assert student(degrees) == pytest.approx(stats.t.ppf(0.975, degrees), rel=2e-3)


def test_without_repeated_questions_it_is_the_textbook_interval() -> None:
    values = np.array([0.1, 0.4, 0.3, NOTHING, 0.8, 0.6, 0.5])
    mean = mean_of(values, np.arange(7))
    known = values[np.isfinite(values)]
    reach = student(5) * known.std(ddof=1) / np.sqrt(6)
    assert mean.n == 6
    assert mean.value == pytest.approx(0.45)
    assert (mean.low, mean.high) == pytest.approx((0.45 - reach, 0.45 + reach))


def test_answers_to_one_question_are_one_draw() -> None:
    values, question = np.array([0.1, 0.4, 0.3, 0.9, 0.8, 0.6]), np.arange(6)
    once = mean_of(values, question)
    thrice = mean_of(np.repeat(values, 3), np.repeat(question, 3))
    assert thrice.n == 18
    for name in ("value", "low", "high"):
        assert getattr(thrice, name) == pytest.approx(getattr(once, name))


def test_few_questions_have_no_interval_and_no_row_has_no_mean() -> None:
    few = mean_of(np.linspace(0, 1, 20), np.arange(20) % (MIN_GROUPS - 1))
    assert few.value == pytest.approx(0.5)
    assert (few.low, few.high) == (None, None)
    assert mean_of(np.array([NOTHING]), np.array([0])).value is None


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 9)), min_size=1, max_size=50))
def test_an_interval_holds_its_mean_within_bounds(drawn: list[tuple[float, int]]) -> None:
    values = np.array([value for value, _ in drawn])
    mean = mean_of(values, np.array([group for _, group in drawn]))
    assert mean.value == pytest.approx(values.mean())
    if mean.value is not None and mean.low is not None and mean.high is not None:
        assert 0 <= mean.low <= mean.value + 1e-12
        assert mean.value - 1e-12 <= mean.high <= 1
