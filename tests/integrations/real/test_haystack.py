"""Haystack runs our component, and writes and reads pipelines that hold it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_pipeline_gives_an_evaluation_run(
    judge: Any, rows: list[dict[str, Any]], expected: Callable[[str], Any]
) -> None:
    haystack = pytest.importorskip("haystack")
    from haystack.dataclasses import Document
    from haystack.evaluation import EvaluationRunResult

    from trivet.integrations.haystack import TrivetEvaluator

    component = TrivetEvaluator()
    component.judge = judge
    pipeline = haystack.Pipeline()
    pipeline.add_component("trivet", component)
    inputs = {
        "questions": [row["question"] for row in rows],
        "contexts": [[Document(content=text) for text in row["contexts"]] for row in rows],
        "predicted_answers": [row["response"] for row in rows],
    }
    results = pipeline.run({"trivet": inputs})["trivet"]
    assert results["faithfulness"]["individual_scores"] == expected("faithfulness")
    assert (results["utilization"]["n"], results["utilization"]["n_failed"]) == (3, 0)
    assert judge.calls == [3]
    run = EvaluationRunResult("run", inputs, results)
    report = run.aggregated_report(output_format="json")
    assert set(report["metrics"]) == set(results)


def test_a_pipeline_is_written_and_read() -> None:
    haystack = pytest.importorskip("haystack")
    from haystack.core.serialization import allow_deserialization_module

    from trivet.integrations.haystack import TrivetEvaluator

    pipeline = haystack.Pipeline()
    pipeline.add_component("trivet", TrivetEvaluator(threads=1))
    allow_deserialization_module("trivet.*")
    again = haystack.Pipeline.loads(pipeline.dumps()).get_component("trivet")
    assert again.threads == 1
    assert type(again) is TrivetEvaluator
