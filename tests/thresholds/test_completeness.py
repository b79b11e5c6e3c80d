"""The map of completeness: the model's own quotient, and a rising map of it to the scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.thresholds.test_fit import head
from trivet.bundle.info import CalibrationInfo, CompletenessInfo
from trivet.model.aggregate import completeness
from trivet.thresholds.completeness import expected_completeness, fit_completeness
from trivet.thresholds.fit import LinearMap, probabilities
from trivet.thresholds.joining import sigmoid
from trivet.thresholds.report import describe


def test_the_quotient_is_that_of_the_model() -> None:
    random = np.random.default_rng(0)
    # Three examples of two, one and three sentences; the last sentence has two tokens.
    row, sentence = np.array([0, 0, 1, 2, 2, 2]), np.array([0, 1, 2, 3, 4, 5, 5])
    heads = [
        replace(
            head(random.normal(size=7), np.zeros(6)),
            sentence=sentence,
            row=row,
            verdict=np.full(3, np.nan),
            weight=np.ones(3),
        )
        for _ in range(2)
    ]
    maps = LinearMap(2.0, 0.5), LinearMap()
    quotients = expected_completeness(heads[0], heads[1], maps)
    tokens = [probabilities(*pair).tokens for pair in zip(heads, maps, strict=True)]
    shares = (1 / np.bincount(row)[row] / np.bincount(sentence))[sentence]
    for number in range(3):
        mask = row[sentence] == number
        wanted = completeness(tokens[0][mask][None], tokens[1][mask][None], shares[mask][None])
        assert quotients[number] == pytest.approx(wanted[0])


def test_a_fit_finds_the_map_that_made_the_scores() -> None:
    logits = np.random.default_rng(0).normal(size=500) * 2
    fitted_map = fit_completeness(sigmoid(logits), [*sigmoid(0.6 * logits + 0.8), None][:500])
    assert fitted_map is not None
    assert (fitted_map.scale, fitted_map.shift) == pytest.approx((0.6, 0.8), abs=1e-3)


def test_few_or_equal_scores_give_no_map() -> None:
    predicted = np.linspace(0.1, 0.9, 40)
    assert fit_completeness(predicted, [1.0] * 29 + [None] * 11) is None
    assert fit_completeness(predicted, [1.0] * 40) is None


def test_a_later_calibration_of_another_head_keeps_the_map() -> None:
    before = CalibrationInfo(completeness=CompletenessInfo(scale=2.0, shift=1.0))
    after = describe(before, {"support": LinearMap()}, (), False, ("jsonl:later",), "dev")
    assert after.completeness == before.completeness
