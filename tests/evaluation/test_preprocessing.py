"""The stages of a call, done by another hand than the evaluator's, end in the same verdicts."""

from __future__ import annotations

from typing import Any

import pytest

from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.packing import WindowAccumulator
from trivet.evaluation.preprocessing import Prepared, Refusal, count_characters, failure_of
from trivet.records import (
    BackendError,
    Evaluation,
    ExampleError,
    RagExample,
    Span,
    WindowError,
)


def test_stage_by_stage_the_verdicts_are_those_of_the_call(
    judge: Evaluator, rag_examples: tuple[RagExample, ...]
) -> None:
    for example, prepared in zip(rag_examples, judge.prepare(rag_examples), strict=True):
        assert isinstance(prepared, Prepared)
        assert prepared.example is example
        gathering = WindowAccumulator(prepared.layout)
        for row in range(len(prepared.layout.rows)):
            part = gathering.take([row])
            gathering.add(part, judge.run([part]), 0)
        outputs = judge.join(gathering)
        assert not isinstance(outputs, BackendError)
        (expected,) = judge.evaluate_many([example])
        assert isinstance(expected, Evaluation)
        verdict = judge.finish(prepared, outputs)
        assert verdict.faithfulness == pytest.approx(expected.faithfulness, abs=2e-6)
        assert verdict.relevance == pytest.approx(expected.relevance, abs=2e-6)
        assert [each.text for each in verdict.sentences] == [
            each.text for each in expected.sentences
        ]


def test_what_is_refused_keeps_its_place_and_its_reason(judge: Evaluator, formula: Any) -> None:
    good = RagExample("When?", ("The mill.",), "In 1817.")
    beyond = RagExample("When?", ("x",), "short", response_sentences=(Span(0, 99),))
    nothing = RagExample("When?", ("\u2003",), "x")
    prepared = judge.prepare([beyond, good, nothing, good])
    codes = [each.code if isinstance(each, ExampleError) else None for each in prepared]
    assert codes == ["bad_sentences", None, "empty_contexts", None]
    assert isinstance(judge.prepare([nothing], allow_empty_contexts=True)[0], Prepared)
    assert judge.prepare([]) == []
    assert formula.calls == []


def test_a_failure_names_its_reason_for_programs() -> None:
    example = RagExample("When?", ("x",), "y", id="seven")
    refusals: list[Refusal] = [
        ExampleError("too long", code="too_long"),
        WindowError("no room"),
        BackendError("it broke"),
    ]
    failures = [failure_of(each, example) for each in refusals]
    assert [each.code for each in failures] == ["too_long", "window", "backend_failed"]
    assert {each.id for each in failures} == {"seven"}
    assert failures[2].message == "it broke"


def test_characters_are_counted_without_reading_what_is_no_text() -> None:
    assert count_characters(RagExample("abc", ("de", "f"), "g")) == 7
    wrong: Any = RagExample("abc", "no list", None)  # type: ignore[arg-type]
    assert count_characters(wrong) == 3
    assert count_characters(RagExample("", ("ab", None), "")) == 2  # type: ignore[arg-type]
