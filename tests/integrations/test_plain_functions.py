"""Parts of the adapters that run without their tool."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from tests.integrations.conftest import Rows
from trivet.errors import ConfigError, ExampleError
from trivet.integrations import deepeval
from trivet.integrations.judge import score_columns
from trivet.integrations.langchain import evaluator
from trivet.integrations.llama_index import passing
from trivet.integrations.mlflow import merged
from trivet.integrations.row_scoring import check_cpus
from trivet.records import FailedEvaluation


def test_langsmith_gets_a_list_of_scores(judge: Any, rows: Rows, verdicts: list[Any]) -> None:
    row = rows[1]
    scores_given = evaluator(judge, {"question": "ask"})(
        {"ask": row["question"]}, {"answer": row["response"], "documents": row["contexts"]}
    )
    assert [set(score) for score in scores_given] == [{"key", "score", "comment"}] * 4
    assert scores_given[0]["comment"].startswith("unsupported: ")
    scores = [("faithfulness", verdicts[1].faithfulness)]
    scores += [("context_relevance", verdicts[1].relevance)]
    assert [(score["key"], score["score"]) for score in scores_given[:2]] == scores
    with pytest.raises(ExampleError, match="has no contexts"):
        evaluator(judge)({"question": "q"}, {"answer": "r"})
    (least, *_) = evaluator(judge, threshold=1.0)(rows[0], {})
    assert least["comment"].startswith("unsupported: ")


def test_an_mlflow_run_becomes_one_row() -> None:
    spans = [SimpleNamespace(outputs=["a"]), SimpleNamespace(outputs=[{"page_content": "b"}])]
    trace = SimpleNamespace(search_spans=lambda span_type: spans)
    contexts = ["a", {"page_content": "b"}]
    row = {"contexts": contexts, "question": "q", "response": "r"}
    assert merged({"question": "q"}, "r", trace) == row
    assert merged("q", {"answer": "r", "contexts": ["c"]}, trace)["contexts"] == ["c"]
    nothing = SimpleNamespace(search_spans=lambda span_type: [SimpleNamespace(outputs=None)])
    assert "contexts" not in merged("q", "r", nothing)


def test_score_columns_count_what_the_mean_leaves_out(verdicts: list[Any]) -> None:
    columns = score_columns([verdicts[0], FailedEvaluation(None, "too_long", "long"), verdicts[1]])
    column = columns["context_relevance"]
    values = [verdicts[0].relevance, None, verdicts[1].relevance]
    assert column["individual_scores"] == values
    assert column["score"] == (values[0] + values[2]) / 2
    assert (column["n"], column["n_failed"]) == (2, 1)
    assert column["errors"] == [None, "too_long: long", None]
    assert score_columns([])["faithfulness"]["score"] is None


class BaseMetric:
    """The part of DeepEval's class that decides."""

    error = threshold = None

    def is_successful(self) -> bool | None:
        decides: Any = self
        return None if self.threshold is None else decides.score >= decides.threshold


@pytest.mark.parametrize("adherent", [True, False, None])
def test_deepeval_passes_what_is_adherent_unless_it_has_a_threshold(
    adherent: bool | None, verdicts: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deepeval, "import_tool", lambda *_: SimpleNamespace(BaseMetric=BaseMetric))
    verdict = dataclasses.replace(verdicts[0], faithfulness=0.6, adherent=adherent)
    judge: Any = SimpleNamespace(evaluate=lambda *_: verdict)
    case = SimpleNamespace(input="q", retrieval_context=["c"], actual_output="r")
    for thresholds, passes in (({}, adherent is True), ({"faithfulness": 0.5}, True)):
        faithfulness, relevance, *_ = deepeval.metrics(judge, thresholds)
        assert (faithfulness.measure(case), faithfulness.is_successful()) == (0.6, passes)
        assert faithfulness.threshold is not None  # DeepEval refuses metrics that have none
        relevance.measure(case)
        assert relevance.is_successful() is None


def test_thresholds_have_defaults(verdicts: list[Any]) -> None:
    supported, unsupported, _ = verdicts
    assert passing(supported, "faithfulness", None) is True
    assert passing(unsupported, "faithfulness", None) is False
    assert passing(supported, "faithfulness", 1.0) is False
    assert passing(supported, "utilization", None) is None
    assert passing(supported, "utilization", 0.0) is True


def test_a_pool_of_actors_must_leave_a_cpu() -> None:
    check_cpus(2, 0.5, 2)
    check_cpus(100, 0, 1)
    with pytest.raises(ConfigError, match=r"actors=2 with cpus=0.9 leave 0.2 of 2 CPUs"):
        check_cpus(2, 0.9, 2)
