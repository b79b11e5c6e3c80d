"""The relevance from which contexts answer a question."""

from __future__ import annotations

import numpy as np
import pytest

from trivet.thresholds.choose import split_threshold


@pytest.mark.parametrize(
    ("score", "answered", "weight", "expected"),
    [
        # .7 misses the answered row at .5, .35 takes the unanswered one at .6: weights decide.
        ([0.9, 0.8, 0.6, 0.5, 0.2, 0.1], [1, 1, 0, 1, 0, 0], [1, 1, 1, 0.5, 1, 1], 0.7),
        ([0.9, 0.8, 0.6, 0.5, 0.2, 0.1], [1, 1, 0, 1, 0, 0], [1, 1, 1, 2, 1, 1], 0.35),
        ([0.5, 0.5, 0.1], [1, 0, 0], [1, 1, 1], 0.3),  # equal scores fall on one side
        ([0.5, 0.2], [1, 1], [1, 1], None),
    ],
)
def test_the_threshold_tells_most_of_both_kinds(
    score: list[float], answered: list[int], weight: list[float], expected: float | None
) -> None:
    found = split_threshold(np.array(score), np.array(answered, bool), np.array(weight, float))
    assert found == (None if expected is None else pytest.approx(expected))
