"""TruLens holds our metrics, writes them down and reads them again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trivet.integrations.trulens import metrics

pytestmark = pytest.mark.filterwarnings("ignore")


def test_metrics_are_called_by_their_selectors(
    judge: Any, rows: list[dict[str, Any]], verdicts: list[Any]
) -> None:
    pytest.importorskip("trulens.core")
    made = metrics(judge)
    assert made[0].name == "trivet_faithfulness"
    value, said = made[0](**rows[1])
    assert value == pytest.approx(verdicts[1].faithfulness, abs=0.02)
    assert said["reason"].startswith("unsupported: ")
    for metric in made[1:]:
        metric(**rows[1])
    assert judge.calls == [1]


def test_a_metric_is_found_by_its_written_address(rows: list[dict[str, Any]]) -> None:
    pytest.importorskip("trulens.core")
    metric = metrics()[0]
    value, _ = metric.implementation.load()(**rows[0])
    assert value == pytest.approx(metric(**rows[0])[0])


def test_an_app_that_trulens_records_is_judged(
    judge: Any, rows: list[dict[str, Any]], verdicts: list[Any], tmp_path: Path
) -> None:
    apps = pytest.importorskip("trulens.apps.app")
    otel = pytest.importorskip("trulens.core.otel.instrument")
    trace = pytest.importorskip("trulens.otel.semconv.trace")
    core = pytest.importorskip("trulens.core")
    attributes = trace.SpanAttributes
    by_question = {row["question"]: row for row in rows}

    class Rag:
        @otel.instrument(
            span_type=attributes.SpanType.RETRIEVAL,
            attributes={
                attributes.RETRIEVAL.QUERY_TEXT: "question",
                attributes.RETRIEVAL.RETRIEVED_CONTEXTS: "return",
            },
        )
        def retrieve(self, question: str) -> list[str]:
            contexts: list[str] = by_question[question]["contexts"]
            return contexts

        @otel.instrument(
            attributes={
                attributes.RECORD_ROOT.INPUT: "question",
                attributes.RECORD_ROOT.OUTPUT: "return",
            },
        )
        def answer(self, question: str) -> str:
            self.retrieve(question)
            response: str = by_question[question]["response"]
            return response

    core.TruSession(database_url=f"sqlite:///{tmp_path}/records.sqlite")
    rag = Rag()
    app = apps.TruApp(rag, app_name="rag", app_version="1", feedbacks=metrics(judge))
    with app as recording:
        for row in rows:
            rag.answer(row["question"])
    ids = [record.record_id for record in recording]
    scored = app.retrieve_feedback_results(ids, timeout=60)
    for record_id, verdict in zip(ids, verdicts, strict=True):
        found = scored.loc[record_id]
        assert found["trivet_faithfulness"] == pytest.approx(verdict.faithfulness, abs=0.02)
        assert found["trivet_context_relevance"] == pytest.approx(verdict.relevance, abs=0.02)
