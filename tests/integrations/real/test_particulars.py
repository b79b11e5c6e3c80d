"""Failures, thresholds, serialization and other particulars of single tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.integrations.conftest import Rows
from trivet.errors import ExampleError
from trivet.integrations import deepeval, llama_index, mlflow, phoenix, ragas
from trivet.integrations.langchain import runnable
from trivet.records import Evaluation


def test_ragas_gets_an_error_for_a_sample_without_contexts(judge: Any, rows: Rows) -> None:
    library = pytest.importorskip("ragas")
    sample = library.SingleTurnSample(
        user_input=rows[0]["question"], retrieved_contexts=[], response=rows[0]["response"]
    )
    (faithfulness,) = ragas.metrics(judge, ["faithfulness"])
    with pytest.raises(ValueError, match="there are no contexts"):
        faithfulness.single_turn_score(sample)


def test_ragas_collection_metrics_give_value_and_reason(
    judge: Any, rows: Rows, verdicts: list[Evaluation]
) -> None:
    pytest.importorskip("ragas")
    faithfulness, relevance = ragas.collection_metrics(judge, ["faithfulness", "context_relevance"])
    names = {"question": "user_input", "contexts": "retrieved_contexts", "response": "response"}
    inputs = [{names[name]: value for name, value in row.items()} for row in rows]
    results = faithfulness.batch_score(inputs)
    expected = [verdict.faithfulness for verdict in verdicts]
    assert [result.value for result in results] == pytest.approx(expected, abs=0.02)
    assert results[1].reason.startswith("unsupported: ")
    value = relevance.score(**inputs[0]).value
    assert value == pytest.approx(verdicts[0].relevance, abs=0.02)
    assert sum(judge.calls) == 3  # each row once for both metrics
    with pytest.raises(ValueError, match="there are no contexts"):
        faithfulness.score(**{**inputs[0], "retrieved_contexts": []})


def test_deepeval_asserts_thresholds(judge: Any, rows: Rows) -> None:
    library = pytest.importorskip("deepeval")
    names = {"question": "input", "contexts": "retrieval_context", "response": "actual_output"}
    make = library.test_case.LLMTestCase
    supported, unsupported, _ = (make(**{names[n]: v for n, v in row.items()}) for row in rows)
    library.assert_test(supported, deepeval.metrics(judge))
    with pytest.raises(AssertionError, match="trivet faithfulness"):
        library.assert_test(unsupported, deepeval.metrics(judge))
    with pytest.raises(AssertionError, match="trivet context_relevance"):
        library.assert_test(supported, deepeval.metrics(judge, {"context_relevance": 0.99}))


def test_a_langchain_chain_ends_in_a_verdict(judge: Any, rows: Rows) -> None:
    runnables = pytest.importorskip("langchain_core.runnables")
    documents = pytest.importorskip("langchain_core.documents")

    def answer(question: str) -> dict[str, Any]:
        context = [documents.Document(page_content=text) for text in rows[0]["contexts"]]
        return {"query": question, "context": context, "answer": rows[0]["response"]}

    verdict = (runnables.RunnableLambda(answer) | runnable(judge)).invoke(rows[0]["question"])
    assert isinstance(verdict, Evaluation)
    assert len(verdict.contexts) == 2
    batch = [rows[0], {**rows[0], "contexts": []}]
    with pytest.raises(ExampleError, match="there are no contexts"):
        runnable(judge).batch(batch)
    first, second = runnable(judge).batch(batch, return_exceptions=True)
    assert isinstance(first, Evaluation)
    assert isinstance(second, ExampleError)


def test_llama_index_gets_an_invalid_result_without_contexts(judge: Any) -> None:
    pytest.importorskip("llama_index.core")
    evaluator = llama_index.evaluators(judge)["faithfulness"]
    result = evaluator.evaluate(query="q", response="r", contexts=[])
    assert result.invalid_result
    assert result.invalid_reason.startswith("empty_contexts: there are no contexts")


def test_a_haystack_pipeline_is_serialized() -> None:
    haystack = pytest.importorskip("haystack")
    serialization = pytest.importorskip("haystack.core.serialization")
    from trivet.integrations.haystack import TrivetEvaluator

    pipeline = haystack.Pipeline()
    pipeline.add_component("trivet", TrivetEvaluator(threads=1, options={"threshold": 0.5}))
    serialization.allow_deserialization_module("trivet.*")
    again = haystack.Pipeline.loads(pipeline.dumps()).get_component("trivet")
    assert (again.threads, again.options) == (1, {"threshold": 0.5})
    assert type(again) is TrivetEvaluator


def test_mlflow_gets_contexts_from_retriever_spans(judge: Any, rows: Rows) -> None:
    library = pytest.importorskip("mlflow")
    library.set_tracking_uri("sqlite:///mlflow.db")
    row = rows[0]

    @library.trace(span_type="RETRIEVER")
    def retrieve(question: str) -> list[dict[str, Any]]:
        return [{"page_content": text, "id": str(n)} for n, text in enumerate(row["contexts"])]

    @library.trace
    def answer(question: str) -> str:
        retrieve(question)
        return str(row["response"])

    answer(row["question"])
    trace = library.get_trace(library.get_last_active_trace_id(), flush=True)
    inputs = {"question": row["question"]}
    feedback = mlflow.scorer(judge).run(inputs=inputs, outputs=row["response"], trace=trace)
    assert feedback[0].name == "faithfulness"
    assert feedback[1].rationale.count(",") == 1


def test_phoenix_binds_renamed_fields_of_concurrent_tasks(
    judge: Any, rows: Rows, expected: Callable[[str], Any]
) -> None:
    evals = pytest.importorskip("phoenix.evals")
    pandas = pytest.importorskip("pandas")
    renamed = pandas.DataFrame(rows).rename(columns={"question": "prompt"})
    evaluators = [phoenix.evaluator(judge, {"question": "prompt"})]
    frame = asyncio.run(evals.async_evaluate_dataframe(renamed, evaluators))
    cells = frame["faithfulness_score"]
    values = [json.loads(cell) if isinstance(cell, str) else cell for cell in cells]
    assert [value["score"] for value in values] == expected("faithfulness")
    assert values[1]["explanation"].startswith("unsupported: ")
