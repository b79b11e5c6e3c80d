"""MLflow evaluates rows with our scorer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trivet.integrations.mlflow import scorer

pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_run_has_all_scores_of_one_pass(
    judge: Any,
    rows: list[dict[str, Any]],
    verdicts: list[Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    data = [
        {
            "inputs": {"question": row["question"]},
            "outputs": {"response": row["response"], "contexts": row["contexts"]},
        }
        for row in rows
    ]
    result = mlflow.genai.evaluate(data=data, scorers=[scorer(judge)])
    mean = sum(verdict.faithfulness for verdict in verdicts) / len(verdicts)
    assert result.metrics["faithfulness/mean"] == pytest.approx(mean, abs=0.02)
    assert {"context_relevance/mean", "utilization/mean"} <= set(result.metrics)
    assert sum(judge.calls) == len(rows)


def test_contexts_come_from_the_retriever_spans(
    judge: Any, rows: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    row = rows[0]

    @mlflow.trace(span_type="RETRIEVER")
    def retrieve(question: str) -> list[dict[str, Any]]:
        return [{"page_content": text, "id": str(n)} for n, text in enumerate(row["contexts"])]

    @mlflow.trace
    def answer(question: str) -> str:
        retrieve(question)
        return str(row["response"])

    answer(row["question"])
    trace = mlflow.get_trace(mlflow.get_last_active_trace_id(), flush=True)
    found = scorer(judge).run(
        inputs={"question": row["question"]}, outputs=row["response"], trace=trace
    )
    assert found[0].name == "faithfulness"
    assert found[1].rationale.count(",") == 1
