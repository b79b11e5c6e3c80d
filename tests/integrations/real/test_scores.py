"""Every tool gets the scores of the verdicts, and has each row evaluated once."""

from __future__ import annotations

import asyncio
import datetime
import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tests.integrations.conftest import Rows
from tests.integrations.real.test_documented_examples import TOOLS
from trivet.integrations.judge import SCORES

Scores = dict[str, list[Any]]


def run_ragas(judge: Any, rows: Rows) -> Scores:
    from ragas import EvaluationDataset, evaluate

    from trivet.integrations.ragas import metrics

    names = {"question": "user_input", "contexts": "retrieved_contexts", "response": "response"}
    samples = [{names[name]: value for name, value in row.items()} for row in rows]
    data = EvaluationDataset.from_list(samples)
    frame = evaluate(data, metrics=metrics(judge), show_progress=False).to_pandas()
    return {score: list(frame[f"trivet_{score}"]) for score in SCORES}


def run_deepeval(judge: Any, rows: Rows) -> Scores:
    from deepeval import evaluate
    from deepeval.test_case import LLMTestCase

    from trivet.integrations.deepeval import metrics

    names = {"question": "input", "contexts": "retrieval_context", "response": "actual_output"}
    cases = [LLMTestCase(**{names[name]: value for name, value in row.items()}) for row in rows]
    results = {result.input: result for result in evaluate(cases, metrics(judge)).test_results}
    data = [{metric.name: metric for metric in results[case.input].metrics_data} for case in cases]
    assert [metrics["trivet faithfulness"].success for metrics in data] == [
        judge.evaluator.evaluate(**row).adherent for row in rows
    ]
    assert data[0]["trivet utilization"].success is None
    assert data[0]["trivet utilization"].reason.startswith("by context: ")
    return {score: [metrics[f"trivet {score}"].score for metrics in data] for score in SCORES}


def run_langsmith(judge: Any, rows: Rows) -> Scores:
    from langsmith import Client
    from langsmith.schemas import Example

    from trivet.integrations.langchain import evaluator

    examples = [
        Example(
            id=uuid.uuid4(),
            dataset_id=uuid.uuid4(),
            inputs={"question": row["question"], "number": number},
            created_at=datetime.datetime.now(datetime.UTC),
        )
        for number, row in enumerate(rows)
    ]

    def target(inputs: dict[str, Any]) -> dict[str, Any]:
        row = rows[inputs["number"]]
        return {"answer": row["response"], "documents": row["contexts"]}

    client = Client(api_url="http://127.0.0.1:9", api_key="none")
    results: Any = client.evaluate(
        target, data=examples, evaluators=[evaluator(judge)], upload_results=False
    )
    ordered = sorted(results, key=lambda result: result["example"].inputs["number"])
    scored = [
        {metric.key: metric.score for metric in result["evaluation_results"]["results"]}
        for result in ordered
    ]
    return {score: [scores[score] for scores in scored] for score in SCORES}


def run_langchain(judge: Any, rows: Rows) -> Scores:
    from trivet.integrations.langchain import runnable

    verdicts = runnable(judge).batch(rows)
    assert judge.calls == [3]
    return {
        score: [getattr(verdict, field) for verdict in verdicts] for score, field in SCORES.items()
    }


def run_llama_index(judge: Any, rows: Rows) -> Scores:
    from llama_index.core.evaluation import BatchEvalRunner

    from trivet.integrations.llama_index import evaluators

    runner = BatchEvalRunner(evaluators(judge, {"utilization": 0.0}), workers=64)
    results = asyncio.run(
        runner.aevaluate_response_strs(
            queries=[row["question"] for row in rows],
            response_strs=[row["response"] for row in rows],
            contexts_list=[row["contexts"] for row in rows],
        )
    )
    adherent = [judge.evaluator.evaluate(**row).adherent for row in rows]
    assert [result.passing for result in results["faithfulness"]] == adherent
    assert [result.passing for result in results["utilization"]] == [True] * 3
    assert [result.passing for result in results["completeness"]] == [None] * 3
    return {score: [result.score for result in results[score]] for score in SCORES}


def run_haystack(judge: Any, rows: Rows) -> Scores:
    from haystack import Pipeline
    from haystack.dataclasses import Document
    from haystack.evaluation import EvaluationRunResult

    from trivet.integrations.haystack import TrivetEvaluator

    component = TrivetEvaluator()
    component.judge = judge
    pipeline = Pipeline()
    pipeline.add_component("trivet", component)
    inputs = {
        "questions": [row["question"] for row in rows],
        "contexts": [[Document(content=text) for text in row["contexts"]] for row in rows],
        "predicted_answers": [row["response"] for row in rows],
    }
    results = pipeline.run({"trivet": inputs})["trivet"]
    assert (results["utilization"]["n"], results["utilization"]["n_failed"]) == (3, 0)
    assert judge.calls == [3]
    report = EvaluationRunResult("run", inputs, results).aggregated_report(output_format="json")
    assert set(report["metrics"]) == set(results)
    return {score: results[score]["individual_scores"] for score in SCORES}


def run_mlflow(judge: Any, rows: Rows) -> Scores:
    import mlflow

    from trivet.integrations.mlflow import scorer

    mlflow.set_tracking_uri("sqlite:///mlflow.db")
    data = [
        {
            "inputs": {"question": row["question"]},
            "outputs": {"response": row["response"], "contexts": row["contexts"]},
        }
        for row in rows
    ]
    metrics = mlflow.genai.evaluate(data=data, scorers=[scorer(judge)]).metrics
    return {score: [metrics[f"{score}/mean"]] for score in SCORES}


def run_phoenix(judge: Any, rows: Rows) -> Scores:
    import pandas
    from phoenix.evals import evaluate_dataframe

    from trivet.integrations.phoenix import evaluator

    frame = evaluate_dataframe(pandas.DataFrame(rows), [evaluator(judge)])
    return {
        score: [
            (json.loads(cell) if isinstance(cell, str) else cell)["score"]
            for cell in frame[f"{score}_score"]
        ]
        for score in SCORES
    }


# It has a test of its own.
NO_SCORES = {"ray"}


@pytest.mark.parametrize("tool", sorted(TOOLS.keys() - NO_SCORES))
def test_a_tool_gets_the_scores(
    tool: str, judge: Any, rows: Rows, expected: Callable[[str], Any]
) -> None:
    pytest.importorskip(TOOLS[tool][1])
    for score, values in globals()[f"run_{tool}"](judge, rows).items():
        wanted = expected(SCORES[score])
        if len(values) == 1:  # the tool reports the mean alone
            wanted = pytest.approx(sum(wanted.expected) / len(rows), abs=0.02)
            (values,) = values
        assert values == wanted, score
    assert sum(judge.calls) == len(rows)
