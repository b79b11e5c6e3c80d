"""Two bundles on the same rows: the side of 0 of the paired interval decides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.measures.verdicts import CONTEXT, FAILED, RESPONSE, verdict
from trivet.adaptation import Change, compare_bundles, is_better
from trivet.measures.predictions import Prediction
from trivet.records import LabelledExample, Labels, RagExample


@pytest.mark.parametrize(
    ("measure", "low", "high", "outcome"),
    [
        ("hallucination_auroc", 0.01, 0.2, "better"),
        ("hallucination_auroc", -0.2, -0.01, "worse"),
        ("relevance_rmse", 0.01, 0.2, "worse"),
        ("relevance_rmse", -0.2, -0.01, "better"),
        ("span_f1", -0.1, 0.1, "no difference shown"),
        ("span_f1", 0.0, 0.1, "no difference shown"),
        ("span_f1", None, None, "no difference shown"),
    ],
)
def test_the_outcome_is_the_side_of_the_interval(
    measure: str, low: float | None, high: float | None, outcome: str
) -> None:
    assert Change(measure, 0.5, 0.6, low, high, 9, None, 3).outcome == outcome


def predictions(good: float, bad: float) -> list[Prediction]:
    """Return rows of 20 documents; every second response is hallucinated."""
    rows = []
    for n in range(20):
        labels = Labels(adherent=n % 2 == 0)
        example = LabelledExample(
            RagExample("q", (CONTEXT,), RESPONSE), labels, f"s{n % 3}", str(n)
        )
        rows.append(Prediction(example, verdict(good if n % 2 == 0 else bad)))
    return rows


def test_a_row_that_failed_once_is_left_out_of_both() -> None:
    after = predictions(0.9, 0.2)
    after[0] = replace(after[0], evaluation=FAILED)
    changes = compare_bundles(predictions(0.9, 0.2), after)
    assert {change.n for change in changes} == {19}


def test_one_measure_that_got_worse_is_enough_to_keep_the_old_model() -> None:
    better = Change("hallucination_auroc", 0.5, 0.7, 0.1, 0.3, 9, 3, 9)
    worse = Change("relevance_rmse", 0.1, 0.2, 0.05, 0.15, 9, None, 9)
    assert is_better([better])
    assert not is_better([better, worse])
