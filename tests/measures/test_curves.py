"""Reliability bins and ROC points: by hand, and equal to the measures with intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.measures.curves import expected_calibration_error, reliability_bins, roc_points
from trivet.measures.intervals import auroc, calibration_error

rated = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60)


def test_bins_by_hand() -> None:
    probs, truth = np.array([0.0, 0.05, 0.45, 1.0]), np.array([False, True, True, True])
    bins = reliability_bins(probs, truth)
    ends = [(one.low, one.high, one.count) for one in bins]
    assert ends == [(0, 1 / 15, 2), (6 / 15, 7 / 15, 1), (14 / 15, 1, 1)]
    assert [one.probability for one in bins] == pytest.approx([0.05 / 2, 0.45, 1.0])
    assert [one.share for one in bins] == pytest.approx([0.5, 1.0, 1.0])
    assert expected_calibration_error(bins) == pytest.approx((2 * (0.5 - 0.025) + 0.55) / 4)
    assert expected_calibration_error([]) is None
    assert reliability_bins(np.zeros(0), np.zeros(0)) == []


@given(rated)
def test_the_error_of_the_bins_is_the_measured_one(drawn: list[tuple[float, bool]]) -> None:
    probs = np.array([probability for probability, _ in drawn])
    truth = np.array([true for _, true in drawn])
    measured = calibration_error(np.arange(len(probs)), probs, truth, len(probs))
    (value,) = measured(np.ones((1, len(probs))))
    assert expected_calibration_error(reliability_bins(probs, truth)) == pytest.approx(value)


def test_bins_refuse_what_is_no_probability() -> None:
    with pytest.raises(ValueError, match=r"not in \[0, 1\]"):
        reliability_bins(np.array([float("nan")]), np.array([1]))
    with pytest.raises(ValueError, match=r"2 probabilities and 1 truths"):
        reliability_bins(np.array([0.1, 0.2]), np.array([1]))


@given(rated)
def test_the_area_under_the_points_is_the_auroc(drawn: list[tuple[float, bool]]) -> None:
    score = np.array([value for value, _ in drawn])
    truth = np.array([true for _, true in drawn])
    if truth.all() or not truth.any():
        with pytest.raises(ValueError, match="needs both classes"):
            roc_points(score, truth)
        return
    false, true = roc_points(score, truth)
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
    area = np.sum(np.diff(false) * (true[1:] + true[:-1]) / 2)
    assert area == pytest.approx(auroc(score, truth)(np.ones((1, len(score))))[0])
