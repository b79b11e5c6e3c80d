"""A client of LettuceDetect's server finds here what it expects there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serve.http.conftest import Asked, refusal
from trivet.evaluation.evaluator import Evaluator
from trivet.integrations.lettucedetect import HallucinationDetector

PATH = "/v1/lettucedetect/spans"
ASKED: dict[str, Any] = {
    "contexts": ["The bridge was built in 1884.", "It crosses the river."],
    "question": "When was the bridge built?",
    "answer": "It was built in 1884. Its architect was a famous Roman engineer.",
}


def test_spans_are_those_of_the_call_under_the_names_of_their_server(
    server: Asked, embedded: Evaluator
) -> None:
    answer = server.post(PATH, ASKED)
    assert answer.status_code == 200
    assert list(answer.json()) == ["predictions"]
    called = HallucinationDetector(embedded).predict(
        ASKED["contexts"], ASKED["answer"], ASKED["question"], output_format="spans"
    )
    assert called
    for mine, theirs in zip(answer.json()["predictions"], called, strict=True):
        assert list(mine) == ["start", "end", "hallucination_score", "text"]
        assert mine["hallucination_score"] == pytest.approx(theirs["confidence"], abs=1e-5)
        assert (mine["start"], mine["end"]) == (theirs["start"], theirs["end"])
        assert mine["text"] == ASKED["answer"][mine["start"] : mine["end"]]


@pytest.mark.parametrize(
    ("change", "error_type"),
    [
        ({"contexts": []}, "empty_contexts"),
        ({"answer": None}, "validation"),
        ({"response": "x"}, "validation"),
        ({"timeout_ms": 0}, "validation"),
    ],
)
def test_what_is_wrong_is_refused(server: Asked, change: dict[str, Any], error_type: str) -> None:
    assert refusal(server.post(PATH, {**ASKED, **change}))[:2] == (422, error_type)
