"""A verdict read back is the verdict; what is no verdict is refused by the name of its field."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from trivet.records import DataError, Evaluation
from trivet.report.verdict_row import VerdictRow, read_evaluation, read_scores

MakeRow = Callable[..., VerdictRow]


def record(make_row: MakeRow) -> dict[str, Any]:
    verdict = make_row().verdict
    assert verdict is not None
    read: dict[str, Any] = json.loads(json.dumps(verdict))
    return read


def test_a_verdict_survives_its_file(make_row: MakeRow) -> None:
    verdict = read_evaluation(record(make_row))
    assert isinstance(verdict, Evaluation)
    assert verdict.to_dict() == make_row().verdict


def test_fields_that_were_left_out_are_empty() -> None:
    verdict = read_evaluation({"faithfulness": 0.5})
    assert (verdict.faithfulness, verdict.relevance, verdict.contexts) == (0.5, None, ())
    assert read_scores({"relevance": 1})["relevance"] == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"faithfulness": "0.4"}, "faithfulness is '0.4', which is no number from 0 to 1"),
        ({"relevance": 1.5}, "relevance is 1.5"),
        ({"utilization": float("nan")}, "utilization is nan"),
        ({"completeness": True}, "completeness is True"),
        ({"adherent": "yes"}, "adherent is 'yes', which is neither true nor false"),
        ({"windows": -1}, "windows is -1, which is no whole number from 0"),
        ({"sentences": "none"}, "sentences must be a list"),
        ({"contexts": ["text"]}, r"contexts\[0\] must be an object"),
        ({"unsupported": [{"start": 0, "end": 3, "text": "ab"}]}, r"must hold a text of 3"),
        ({"unsupported": [{"start": 3, "end": 1, "text": ""}]}, r"unsupported\[0\]: a span from 3"),
        ({"sentences": [{"start": 10**9, "end": 10**9 + 1, "text": "a"}]}, "no text is that long"),
        ({"sentences": [{"start": 0, "end": 1, "text": "a"}]}, "support is missing"),
        ({"contexts": [{"sentences": [{}]}]}, r"contexts\[0\]: sentences\[0\]"),
    ],
)
def test_what_is_no_verdict_is_named(
    make_row: MakeRow, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read_evaluation(record(make_row) | change)
