"""The guardrail has any-guardrail's output, and finds what the verdict finds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integrations.conftest import CountingJudge, Rows
from trivet.errors import ExampleError
from trivet.integrations import any_guardrail

base = pytest.importorskip("any_guardrail.base")


def arguments(row: dict[str, Any]) -> dict[str, Any]:
    names = {"response": "input_text", "contexts": "context", "question": "question"}
    return {names[name]: value for name, value in row.items()}


def test_the_output_is_that_of_the_verdict(judge: CountingJudge, rows: Rows) -> None:
    guardrail = any_guardrail.TrivetGuardrail(judge)
    assert isinstance(guardrail, base.Guardrail)
    for row in rows:
        verdict, output = judge.evaluator.evaluate(**row), guardrail.validate(**arguments(row))
        assert isinstance(output, base.GuardrailOutput)
        assert output.valid is verdict.adherent
        assert output.score == pytest.approx(1 - (verdict.faithfulness or 0), abs=1e-5)
        found = [(span.start, span.end, span.text) for span in output.spans or ()]
        assert found == [(span.start, span.end, span.text) for span in verdict.unsupported]
        assert [each.triggered for each in output.categories] == [not verdict.adherent]
        assert output.usage.model_id == f"trivet/{judge.bundle.info.name}"
        assert output.usage.latency_ms > 0
        assert json.loads(output.model_dump_json())["extra"]["adherent"] is verdict.adherent


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"context": []}, "there are no contexts"),
        ({"input_text": ""}, "there is no faithfulness without a response"),
        ({"input_text": 7}, "response is a value of type int"),
    ],
)
def test_texts_that_cannot_be_checked_are_refused(
    judge: CountingJudge, rows: Rows, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ExampleError, match=message):
        any_guardrail.TrivetGuardrail(judge).validate(**{**arguments(rows[0]), **change})
