"""Figures as JSON and as a table."""

from __future__ import annotations

import json
import math

import pytest

from trivet.measures.figures import HEADER, Figure, to_json, to_markdown

DEFINED = Figure("hallucination_auroc", "logs/a", 0.81234, 0.7, 0.9, 40, 12, 20, 1)
UNDEFINED = Figure(
    "span_f1", "logs/a", None, None, None, 3, 0, 2, 0, "undefined: no | row", generator="model-x"
)


def test_json_gives_every_number_back_and_null_for_the_undefined() -> None:
    record = json.loads(to_json([DEFINED, UNDEFINED], command="trivet test"))
    assert record["command"] == "trivet test"
    assert [Figure(**figure) for figure in record["figures"]] == [DEFINED, UNDEFINED]
    assert record["figures"][1]["value"] is None


def test_json_refuses_nan() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json([Figure("m", "s", math.nan, None, None, 1, None, 1, 0)])


def test_the_table_says_everything() -> None:
    assert to_markdown([DEFINED, UNDEFINED]) == (
        "| source | measure | value | 95 % interval | n | positives | groups | failed | note |\n"
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n"
        "| logs/a | hallucination_auroc | 0.812 | 0.700 to 0.900 | 40 | 12 | 20 | 1 |  |\n"
        r"| logs/a, model-x | span_f1 | - | - | 3 | 0 | 2 | 0 | undefined: no \| row |" + "\n"
    )


def test_a_column_of_notes_without_notes_is_left_out() -> None:
    assert to_markdown([DEFINED]).splitlines()[0].endswith("| failed |")
    assert len(DEFINED.to_cells()) == len(HEADER)
