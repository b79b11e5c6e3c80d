"""The stages of a call, done by another hand than the evaluator's, end in the same verdicts."""

from __future__ import annotations

from typing import Any

import pytest

from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.packing import BackendCall, WindowAccumulator
from trivet.evaluation.postprocessing import to_evaluation, to_result
from trivet.evaluation.preprocessing import PreprocessedExample, Refusal, count_characters
from trivet.records import (
    BackendError,
    Evaluation,
    ExampleError,
    FailedEvaluation,
    RagExample,
    WindowError,
)


def test_stage_by_stage_the_verdicts_are_those_of_the_call(
    judge: Evaluator, rag_examples: tuple[RagExample, ...]
) -> None:
    preprocessed = judge.preprocessor.preprocess(rag_examples)
    for example, prepared in zip(rag_examples, preprocessed, strict=True):
        assert isinstance(prepared, PreprocessedExample)
        accumulator = WindowAccumulator(prepared.layout)
        for row in range(len(prepared.layout.rows)):
            call = BackendCall({accumulator: [row]})
            call.run(judge.backend, judge.pad, at_once=1)
            call.add()
        (expected,) = judge.evaluate_many([example])
        assert isinstance(expected, Evaluation)
        (verdict,) = judge.postprocess([prepared], [accumulator], to_evaluation)
        assert isinstance(verdict, Evaluation)
        assert verdict.faithfulness == pytest.approx(expected.faithfulness, abs=2e-6)
        assert verdict.relevance == pytest.approx(expected.relevance, abs=2e-6)
        assert [each.text for each in verdict.sentences] == [
            each.text for each in expected.sentences
        ]


def test_a_failure_names_its_reason_for_programs() -> None:
    example = RagExample("When?", ("x",), "y", id="seven")
    refusals: list[Refusal] = [
        ExampleError("too long", code="too_long"),
        WindowError("no room"),
        BackendError("it broke"),
    ]
    assert [to_result(each, example) for each in refusals] == [
        FailedEvaluation("seven", "too_long", "too long"),
        FailedEvaluation("seven", "window", "no room"),
        FailedEvaluation("seven", "backend_failed", "it broke"),
    ]


def test_characters_are_counted_without_reading_what_is_no_text() -> None:
    assert count_characters(RagExample("abc", ("de", "f"), "g")) == 7
    wrong: Any = RagExample("abc", "no list", None)  # type: ignore[arg-type]
    assert count_characters(wrong) == 3
    assert count_characters(RagExample("", ("ab", None), "")) == 2  # type: ignore[arg-type]
