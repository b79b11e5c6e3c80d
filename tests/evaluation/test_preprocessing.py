"""Codes of refused examples, and the count of characters."""

from __future__ import annotations

from typing import Any

from trivet.errors import BackendError, ExampleError, WindowError
from trivet.evaluation.postprocessing import to_result
from trivet.evaluation.preprocessing import Refusal, count_characters
from trivet.records import FailedEvaluation, RagExample


def test_a_failure_names_its_reason_for_programs() -> None:
    example = RagExample("When?", ("x",), "y", id="seven")
    refusals: list[Refusal] = [
        ExampleError("too long", code="too_long"),
        WindowError("no room"),
        BackendError("it broke"),
    ]
    assert [to_result(refusal, example.id) for refusal in refusals] == [
        FailedEvaluation("seven", "too_long", "too long"),
        FailedEvaluation("seven", "window", "no room"),
        FailedEvaluation("seven", "backend_failed", "it broke"),
    ]


def test_characters_are_counted_without_reading_what_is_no_text() -> None:
    assert count_characters(RagExample("abc", ("de", "f"), "g")) == 7
    wrong: Any = RagExample("abc", "no list", None)  # type: ignore[arg-type]
    assert count_characters(wrong) == 3
    assert count_characters(RagExample("", ("ab", None), "")) == 2  # type: ignore[arg-type]
