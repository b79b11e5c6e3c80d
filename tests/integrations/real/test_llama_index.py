"""LlamaIndex's batch runner asks our evaluators."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from trivet.integrations.llama_index import evaluators

pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_batch_of_responses_is_scored(
    judge: Any, rows: list[dict[str, Any]], verdicts: list[Any], expected: Callable[[str], Any]
) -> None:
    pytest.importorskip("llama_index.core")
    from llama_index.core.evaluation import BatchEvalRunner

    runner = BatchEvalRunner(evaluators(judge, {"utilization": 0.0}), workers=64)
    results = asyncio.run(
        runner.aevaluate_response_strs(
            queries=[row["question"] for row in rows],
            response_strs=[row["response"] for row in rows],
            contexts_list=[row["contexts"] for row in rows],
        )
    )
    assert [result.score for result in results["faithfulness"]] == expected("faithfulness")
    assert [result.score for result in results["context_relevance"]] == expected("relevance")
    adherent = [verdict.adherent for verdict in verdicts]
    assert [result.passing for result in results["faithfulness"]] == adherent
    assert [result.passing for result in results["utilization"]] == [True] * 3
    assert [result.passing for result in results["completeness"]] == [None] * 3
    assert sum(judge.calls) == len(rows)


def test_one_that_cannot_be_judged_is_invalid(judge: Any) -> None:
    pytest.importorskip("llama_index.core")
    result = evaluators(judge)["faithfulness"].evaluate(query="q", response="r", contexts=[])
    assert result.invalid_result
    assert result.invalid_reason.startswith("empty_contexts: there are no contexts")
