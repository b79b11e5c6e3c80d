"""The relevance from which contexts answer a question."""

from __future__ import annotations

import numpy as np
import pytest

from trivet.calibration.head_thresholds import split_threshold


def test_the_threshold_tells_most_of_both_kinds() -> None:
    score = np.array([0.9, 0.8, 0.6, 0.5, 0.2, 0.1])
    answered = np.array([True, True, False, True, False, False])
    # .7 misses the answered row at .5, .35 takes the unanswered one at .6: their weights decide.
    weight = np.array([1.0, 1.0, 1.0, 0.5, 1.0, 1.0])
    assert split_threshold(score, answered, weight) == pytest.approx(0.7)
    weight = np.array([1.0, 1.0, 1.0, 2.0, 1.0, 1.0])
    assert split_threshold(score, answered, weight) == pytest.approx(0.35)


def test_equal_scores_fall_on_one_side() -> None:
    score = np.array([0.5, 0.5, 0.1])
    found = split_threshold(score, np.array([True, False, False]), np.ones(3))
    assert found == pytest.approx(0.3)


def test_one_kind_alone_has_no_threshold() -> None:
    assert split_threshold(np.array([0.5, 0.2]), np.array([True, True]), np.ones(2)) is None
