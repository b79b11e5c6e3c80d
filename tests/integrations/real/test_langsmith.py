"""LangSmith runs our evaluator over examples, without its server."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

import pytest

from trivet.integrations.langsmith import evaluator

pytestmark = pytest.mark.filterwarnings("ignore")


def test_every_run_has_all_scores(
    judge: Any, rows: list[dict[str, Any]], verdicts: list[Any]
) -> None:
    langsmith = pytest.importorskip("langsmith")
    from langsmith.schemas import Example

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

    client = langsmith.Client(api_url="http://127.0.0.1:9", api_key="none")
    results = client.evaluate(
        target, data=examples, evaluators=[evaluator(judge)], upload_results=False
    )
    found = {
        result["example"].inputs["number"]: {
            each.key: each.score for each in result["evaluation_results"]["results"]
        }
        for result in results
    }
    for number, verdict in enumerate(verdicts):
        scores = found[number]
        assert scores["faithfulness"] == pytest.approx(verdict.faithfulness, abs=0.02)
        assert scores["context_relevance"] == pytest.approx(verdict.relevance, abs=0.02)
        assert set(scores) == {"faithfulness", "context_relevance", "utilization", "completeness"}
    assert sum(judge.calls) == len(rows)
