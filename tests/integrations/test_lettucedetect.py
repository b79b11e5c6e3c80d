"""LettuceDetect's call: spans and tokens of the same verdict."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import trivet
from tests.integrations.conftest import Rows
from trivet.errors import ExampleError
from trivet.integrations.lettucedetect import HallucinationDetector


def call(row: dict[str, Any]) -> dict[str, Any]:
    return {"context": row["contexts"], "question": row["question"], "answer": row["response"]}


def found_kinds(span: Any) -> dict[str, str]:
    kinds = {"category": span.category, "subcategory": span.subcategory}
    return {name: kind for name, kind in kinds.items() if kind}


def test_spans_are_those_of_the_verdict(judge: Any, rows: Rows, verdicts: list[Any]) -> None:
    detector = HallucinationDetector(judge)
    for row, verdict in zip(rows, verdicts, strict=True):
        found = detector.predict(**call(row), output_format="spans")
        kinds = [found_kinds(span) for span in verdict.unsupported]
        assert found == [
            {"start": s.start, "end": s.end, "confidence": s.probability, "text": s.text} | kind
            for s, kind in zip(verdict.unsupported, kinds, strict=True)
        ]
        assert all(row["response"][s["start"] : s["end"]] == s["text"] for s in found)
    sure = detector.predict(**call(rows[1]), output_format="spans", min_confidence=1.0)
    assert sure == []


def test_tokens_cover_the_answer(embedded: Any, rows: Rows) -> None:
    found = HallucinationDetector(embedded).predict(**call(rows[1]))
    assert "".join(token["token"] for token in found) == rows[1]["response"].replace(" ", "")
    threshold = embedded.bundle.info.thresholds.span
    assert all(1 - token["prob"] < threshold for token in found if token["pred"])
    assert any(token["pred"] for token in found)
    tokens = embedded.evaluate_tokens(**rows[1])
    assert [rows[1]["response"][t.start : t.end] for t in tokens] == [t.text for t in tokens]


def test_tokens_use_the_threshold_of_spans(rows: Rows) -> None:
    evaluator = trivet.Evaluator(threads=1)
    info = evaluator.bundle.info
    assert info.thresholds is not None
    supports = sorted(token.support for token in evaluator.evaluate_tokens(**rows[1]))
    threshold = (supports[0] + supports[-1]) / 2  # between them, whatever the model
    thresholds = dataclasses.replace(info.thresholds, span=threshold, sentence=1.0)
    changed = info.model_copy(update={"thresholds": thresholds})
    evaluator.bundle = dataclasses.replace(evaluator.bundle, info=changed)
    tokens = evaluator.evaluate_tokens(**rows[1])
    words = [token for token in tokens if token.text.isalnum() and len(token.text) > 1]
    assert not any(token.supported for token in words if token.support < threshold)
    assert {token.supported for token in tokens} == {True, False}


def test_invalid_arguments_are_refused(judge: Any, embedded: Any, rows: Rows) -> None:
    for wrong, message in (
        ({"output_format": "words"}, "no output_format 'words'; use 'tokens' or 'spans'"),
        ({}, "CountingJudge gives no tokens; use output_format='spans'"),
        ({"min_confidence": 2}, r"min_confidence must be in \[0, 1\], got 2"),
    ):
        with pytest.raises(ValueError, match=message):
            HallucinationDetector(judge).predict(**call(rows[0]), **wrong)
    with pytest.raises(ExampleError, match="there are no contexts"):
        HallucinationDetector(embedded).predict(context=[], answer="Here.")
