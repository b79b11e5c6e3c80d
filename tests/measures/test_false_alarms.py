"""Bounds on false alarms, and data sets that are too small for one, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from trivet.measures.false_alarms import Faithful, TooFewDocuments, alarm_bounds, too_small

# Document "a" has one of two responses below .5, "b" none of one, "c" its only one.
THREE = Faithful("three", np.array([0.4, 0.6, 0.7, 0.1]), ["a", "a", "b", "c"])
ONE = Faithful("one", np.array([0.9, 0.8]), ["a", "a"])
NONE = Faithful("none", np.zeros(0), [])


def test_a_bound_counts_documents_and_one_more() -> None:
    (bound,) = alarm_bounds([THREE], 0.5, 0.25)
    assert (bound.data, bound.documents) == ("three", 3)
    assert bound.rate == pytest.approx((1 / 2 + 0 + 1) / 3)
    assert bound.bound == pytest.approx((1 / 2 + 0 + 1 + 1) / 4)
    assert "three: 50.0% of the faithful" in bound.words() and "62.5% expected" in bound.words()


def test_a_response_at_the_threshold_is_no_false_alarm() -> None:
    # A threshold that was chosen for a rate is the support of one of the responses.
    (bound,) = alarm_bounds([THREE], 0.6, 0.25)
    assert bound.rate == pytest.approx((1 / 2 + 0 + 1) / 3)


def test_a_data_set_that_is_too_small_is_named_and_has_no_bound() -> None:
    data = [NONE, ONE, THREE]
    assert [alarm_bound.data for alarm_bound in alarm_bounds(data, 0.5, 0.25)] == ["three"]
    small = too_small(data, 0.25)
    assert small == [TooFewDocuments("none", 0, 3), TooFewDocuments("one", 1, 3)]
    assert "documents with a faithful response: 1, needed: 3" in small[1].words()
    assert too_small(data, 0.5) == [TooFewDocuments("none", 0, 1)]
    assert too_small(data, None) == []


@pytest.mark.parametrize(("rate", "needed"), [(0.1, 9), (0.05, 19), (0.3, 3), (0.5, 1), (0.9, 1)])
def test_the_needed_documents_are_just_enough_for_the_rate(rate: float, needed: int) -> None:
    (small,) = too_small([NONE], rate)
    assert small.needed == needed
    assert 1 / (needed + 1) <= rate + 1e-9
    assert needed == 1 or 1 / needed > rate
