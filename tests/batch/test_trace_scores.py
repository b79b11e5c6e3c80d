"""Traces judged, and their scores in the form of the tool that recorded them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from tests.batch.conftest import Call
from trivet.verdict_json import SCORES

TRACES = Path(__file__).parents[1] / "logs" / "traces"
FILES = {
    "otel": "langchain.otlp.jsonl",
    "openinference": "llama_index.otlp.jsonl",
    "langfuse": "langfuse.jsonl",
    "langsmith": "langsmith.jsonl",
}
NAMES = {*SCORES, "supported_share"}


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def scored(call: Call, tool: str, tmp_path: Path) -> tuple[Any, Path]:
    """Return the verdict on a recording, and the file of its scores."""
    verdicts, scores = tmp_path / "v.jsonl", tmp_path / "s.jsonl"
    words = (TRACES / FILES[tool], "--format", tool, "--out", verdicts, "--scores", scores)
    code, _, said = call("evaluate", *words)
    assert (code, "of 1 answer unsupported" in said) == (0, True), said
    (verdict,) = lines(verdicts)
    return verdict, scores


def test_otel_gets_events_in_the_root_span(call: Call, tmp_path: Path) -> None:
    verdict, scores = scored(call, "otel", tmp_path)
    (body,) = lines(scores)
    (logs,) = Parse(json.dumps(body), ExportLogsServiceRequest()).resource_logs
    found = {}
    for record, plain in zip(
        logs.scope_logs[0].log_records,
        body["resourceLogs"][0]["scopeLogs"][0]["logRecords"],
        strict=True,
    ):
        assert record.event_name == "gen_ai.evaluation.result"
        assert plain["traceId"] == verdict["id"]
        assert plain["spanId"] == verdict["metadata"]["span_id"]
        named = {each.key: each.value for each in record.attributes}
        name = named["gen_ai.evaluation.name"].string_value
        found[name] = named["gen_ai.evaluation.score.value"].double_value
    assert found == {name: verdict[name] for name in NAMES}


def test_phoenix_gets_annotations_of_the_root_and_of_each_document(
    call: Call, tmp_path: Path
) -> None:
    verdict, scores = scored(call, "openinference", tmp_path)
    (body,) = lines(scores)
    assert {each["span_id"] for each in body["data"]} == {verdict["metadata"]["span_id"]}
    found = {each["name"]: each["result"]["score"] for each in body["data"]}
    assert found == {name: verdict[name] for name in NAMES}
    (documents,) = lines(tmp_path / "s.documents.jsonl")
    of_documents = {
        (each["name"], each["document_position"]): each["result"]["score"]
        for each in documents["data"]
    }
    assert of_documents == {
        (name, position): context[name]
        for position, context in enumerate(verdict["contexts"])
        for name in ("relevance", "utilization")
    }


def test_langfuse_gets_scores_that_a_second_import_replaces(call: Call, tmp_path: Path) -> None:
    verdict, scores = scored(call, "langfuse", tmp_path)
    bodies = lines(scores)
    assert {body["name"]: body["value"] for body in bodies} == {n: verdict[n] for n in NAMES}
    assert {body["traceId"] for body in bodies} == {verdict["id"]}
    assert {body["timestamp"] for body in bodies} == {"2026-11-20T09:15:02+00:00"}
    before = scores.read_bytes()
    words = (TRACES / FILES["langfuse"], "--format", "langfuse", "--scores", scores)
    assert call("evaluate", *words, "--out", tmp_path / "again.jsonl")[0] == 0
    assert scores.read_bytes() == before


def test_langsmith_gets_feedback_on_the_root_run(call: Call, tmp_path: Path) -> None:
    verdict, scores = scored(call, "langsmith", tmp_path)
    bodies = lines(scores)
    assert {body["key"]: body["score"] for body in bodies} == {n: verdict[n] for n in NAMES}
    assert {body["run_id"] for body in bodies} == {verdict["metadata"]["span_id"]}


def test_the_tools_own_schemas_accept_the_scores(call: Call, tmp_path: Path) -> None:
    schemas = pytest.importorskip("langsmith.schemas")
    _, scores = scored(call, "langsmith", tmp_path)
    for body in lines(scores):
        assert schemas.FeedbackCreate.model_validate(body).key in NAMES


def test_a_run_that_is_finished_can_write_its_scores_later(call: Call, tmp_path: Path) -> None:
    log, out, scores = TRACES / FILES["otel"], tmp_path / "v.jsonl", tmp_path / "s.jsonl"
    words = ("evaluate", log, "--format", "otel", "--out", out)
    assert call(*words)[0] == 0
    assert call(*words, "--scores", scores)[0] == 0
    assert len(lines(scores)) == 1


def test_a_trace_that_cannot_be_judged_is_a_failed_row_without_scores(
    call: Call, tmp_path: Path
) -> None:
    log, out, scores = tmp_path / "spans.jsonl", tmp_path / "v.csv", tmp_path / "s.jsonl"
    shutil.copy(TRACES / FILES["langfuse"], log)
    alone = {"id": "x", "trace_id": "chat", "type": "SPAN", "input": "Hello", "output": "Hello!"}
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(alone | {"end_time": "2026-11-20 10:00:00"}) + "\n")
    words = ("evaluate", log, "--format", "langfuse", "--out", out, "--scores", scores)
    code, _, said = call(*words)
    assert (code, "1 of 2 rows failed: no_documents 1" in said) == (1, True)
    assert "trace chat: has no documents in its 1 span " in out.read_text(encoding="utf-8-sig")
    assert {body["traceId"] for body in lines(scores)} == {"5d1f0c7ab7d94a0f9a3b2d6e8c4f1a20"}


def test_a_report_shows_the_texts_of_traces(call: Call, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    log = TRACES / FILES["langsmith"]
    words = ("--format", "langsmith", "--out", tmp_path / "v.jsonl", "--report", page)
    assert call("evaluate", log, *words)[0] == 0
    assert "When was the lighthouse at Cape Orna built?" in page.read_text(encoding="utf-8")
