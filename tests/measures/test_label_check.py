"""Verdicts beside labels: counts, thresholds and errors by hand-made supports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.measures.verdicts import verdict
from trivet.measures.label_check import (
    LabelCheck,
    check_labels,
    deciding_support,
    shortest_threshold,
)
from trivet.measures.predictions import Prediction
from trivet.records import (
    Evaluation,
    FailedEvaluation,
    LabelledExample,
    Labels,
    RagExample,
    SentenceVerdict,
)


def evaluation(
    *support: float | None, whole: float | None = None, threshold: float = 0.5
) -> Evaluation:
    """Build a verdict of sentences with these supports; None is a sentence without a claim."""
    known = [value for value in support if value is not None]
    whole = min(known, default=1.0) if whole is None else whole
    judged = [None if value is None else max(value, whole) >= threshold for value in support]
    sentences = [SentenceVerdict(0, 1, "x", *pair) for pair in zip(support, judged, strict=True)]
    adherent = all(is_right is not False for is_right in judged)
    shown: dict[str, Any] = {"sentences": tuple(sentences), "threshold": threshold}
    return replace(verdict(whole), adherent=adherent, **shown)


def prediction(
    support: float, supported: bool | None, group: str = "", threshold: float = 0.5
) -> Prediction:
    example = RagExample("", ("",), "x", f"{support:g}")
    labelled = LabelledExample(example, Labels(adherent=supported), "mine", group or f"{support}")
    return Prediction(labelled, evaluation(support, threshold=threshold))


def checked(rows: list[Prediction], rate: float = 0.1) -> LabelCheck:
    return check_labels(rows, rate)


ROWS = [prediction(0.1 * n + 0.05, n >= 4) for n in range(10)]


def test_counts_are_those_of_the_verdicts() -> None:
    rows = [*ROWS, prediction(0.9, None), prediction(0.02, True), prediction(0.97, False)]
    failed = Prediction(ROWS[0].example, FailedEvaluation(None, "window", "too long"))
    used = checked([*rows, failed]).used
    assert (used.threshold, used.finds, used.missed) == (0.5, 4, 1)
    assert (used.false_alarms, used.passed) == (2, 5)


def test_the_threshold_of_a_rate_flags_no_more_than_it() -> None:
    labels = {(n + 0.5) / 40: n % 4 > 0 or n > 20 for n in range(40)}
    at_rate = checked([prediction(value, label) for value, label in labels.items()], 0.2).rate
    assert at_rate is not None
    supported = at_rate.false_alarms + at_rate.passed
    assert supported == 34
    assert 0 < at_rate.false_alarms <= 0.2 * (supported + 1) - 1
    # The next answer is a supported one, which would be a false alarm too many.
    assert labels[min(value for value in labels if value >= at_rate.threshold)]
    assert at_rate.false_alarms + 1 > 0.2 * (supported + 1) - 1


def test_a_rate_that_too_few_documents_can_keep_is_said() -> None:
    check = checked(ROWS, 0.1)
    assert check.rate is None and check.documents == 6
    assert "needs 9 source documents with a supported answer, and there are 6" in str(check.no_rate)
    one_class = checked([prediction(0.2, False), prediction(0.8, False)])
    assert one_class.rate is None and one_class.best_f1 is None
    assert [threshold.name for threshold in one_class.thresholds] == ["used"]


def test_the_worst_errors_are_the_surest_ones() -> None:
    rows = [prediction(value, value < 0.5, threshold=0.8) for value in (0.1, 0.4, 0.81, 0.95)]
    errors = checked(rows).errors
    assert [error.support for error in errors] == [0.1, 0.95, 0.4, 0.81]
    assert [error.distance for error in errors] == pytest.approx([0.875, 0.75, 0.5, 0.05])


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        (evaluation(0.3, 0.8), 0.3),
        (evaluation(0.3, 0.8, whole=0.6), 0.3),
        (evaluation(None, 0.8), 0.8),
        (evaluation(None), 1.0),
    ],
)
def test_an_answer_is_decided_by_its_weakest_claim(judged: Evaluation, expected: float) -> None:
    assert deciding_support(judged) == expected


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(0.001, 1))
def test_a_shortened_threshold_flags_the_same_answers(values: list[float], limit: float) -> None:
    support = np.array(values)
    short = shortest_threshold(limit, support)
    assert ((support < short) == (support < limit)).all()
    assert 0 < short <= 1
