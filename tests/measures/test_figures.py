"""Figures as JSON and as a table."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from trivet.measures.curves import expected_calibration_error, reliability_bins, roc_points
from trivet.measures.figures import Figure, to_json, to_markdown
from trivet.measures.intervals import auroc, calibration_error

DEFINED = Figure("hallucination_auroc", "logs/a", 0.81234, 0.7, 0.9, 40, 12, 20, 1)
UNDEFINED = Figure(
    "span_f1", "logs/a", None, None, None, 3, 0, 2, 0, "undefined: no | row", generator="model-x"
)


def test_json_gives_every_number_back_and_null_for_the_undefined() -> None:
    record = json.loads(to_json([DEFINED, UNDEFINED], command="trivet test"))
    assert record["command"] == "trivet test"
    assert [Figure(**figure) for figure in record["figures"]] == [DEFINED, UNDEFINED]
    assert record["figures"][1]["value"] is None

    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json([Figure("m", "s", math.nan, None, None, 1, None, 1, 0)])


def test_the_table_says_everything() -> None:
    assert to_markdown([DEFINED, UNDEFINED]) == (
        "| source | measure | value | 95 % interval | n | positives | groups | failed | note |\n"
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n"
        "| logs/a | hallucination_auroc | 0.812 | 0.700 to 0.900 | 40 | 12 | 20 | 1 |  |\n"
        r"| logs/a, model-x | span_f1 | - | - | 3 | 0 | 2 | 0 | undefined: no \| row |" + "\n"
    )


rated = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60)


@given(rated)
def test_the_error_of_the_bins_is_the_measured_one(drawn: list[tuple[float, bool]]) -> None:
    probs = np.array([probability for probability, _ in drawn])
    truth = np.array([true for _, true in drawn])
    measured = calibration_error(np.arange(len(probs)), probs, truth, len(probs))
    (value,) = measured(np.ones((1, len(probs))))
    assert expected_calibration_error(reliability_bins(probs, truth)) == pytest.approx(value)


@given(rated)
def test_the_area_under_the_points_is_the_auroc(drawn: list[tuple[float, bool]]) -> None:
    score = np.array([value for value, _ in drawn])
    truth = np.array([true for _, true in drawn])
    assume(truth.any() and not truth.all())
    false, true = roc_points(score, truth)
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
    area = np.sum(np.diff(false) * (true[1:] + true[:-1]) / 2)
    assert area == pytest.approx(auroc(score, truth)(np.ones((1, len(score))))[0])
