"""OpenTelemetry's traces, received by the server and judged."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.serve.http.conftest import Asked, EvenBackend, refusal
from tests.serve.http.test_telemetry import Told
from trivet.evaluation.evaluator import Evaluator
from trivet.logs.trace_examples import Document, TraceSpan
from trivet.serve.http.openapi import openapi
from trivet.serve.http.otlp import TraceBuffer
from trivet.serve.http.running_server import RunningServer, bind
from trivet.serve.http.settings import ServerSettings
from trivet.serve.scheduling.batched_request import Overloaded

RECORDED = Path(__file__).parents[2] / "logs" / "traces" / "langchain.otlp.jsonl"
PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json"}
LATER = 1e9  # seconds, when every trace is complete


def rag_spans(documents: bool = True) -> tuple[ReadableSpan, ...]:
    """Record a RAG answer by the conventions for generative AI, with the real SDK."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("app")
    found = [{"id": "a", "score": 0.9, "content": "The lighthouse has had no keeper since 1931."}]
    question = [{"role": "user", "parts": [{"type": "text", "content": "Who keeps it?"}]}]
    said = {"type": "text", "content": "Jonas lives there with two dogs."}
    answer = [{"role": "assistant", "parts": [said]}]
    with tracer.start_as_current_span("invoke_agent guide") as root:
        root.set_attribute("gen_ai.operation.name", "invoke_agent")
        root.set_attribute("gen_ai.input.messages", json.dumps(question))
        root.set_attribute("gen_ai.output.messages", json.dumps(answer))
        with tracer.start_as_current_span("retrieval shelf") as search:
            search.set_attribute("gen_ai.operation.name", "retrieval")
            search.set_attribute("gen_ai.retrieval.query.text", "Who keeps it?")
            if documents:
                search.set_attribute("gen_ai.retrieval.documents", json.dumps(found))
    return exporter.get_finished_spans()


class Collected(Told):
    """An app that receives traces."""

    def judge(self) -> None:
        assert self.receiver is not None
        self.run(self.receiver.judge(LATER))

    def outcome(self, name: str) -> float:
        return self.metric(f'trivet_traces_total{{outcome="{name}"}}')


@pytest.fixture
def app(embedded: Evaluator) -> Iterator[Collected]:
    with contextlib.closing(Collected(embedded, otlp=True)) as app:
        yield app


def test_a_trace_is_judged_and_its_scores_are_metrics_and_events(app: Collected) -> None:
    spans = rag_spans()
    answer = app.post("/v1/traces", encode_spans(spans).SerializeToString(), PROTOBUF)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-protobuf")
    ExportTraceServiceResponse.FromString(answer.content)
    app.judge()
    assert app.outcome("judged") == 1
    assert app.metric('trivet_score_count{score="faithfulness"}') == 1
    assert app.metric('trivet_sentences_total{supported="no"}') == 1
    events = app.events
    root = spans[-1].context
    assert root is not None
    assert {(event.trace_id, event.span_id) for event in events} == {(root.trace_id, root.span_id)}
    assert {event.event_name for event in events} == {"gen_ai.evaluation.result"}
    names = {(event.attributes or {})["gen_ai.evaluation.name"] for event in events}
    assert names == {"faithfulness", "relevance", "utilization"}
    assert app.spans == [], "a span for each export would never end"


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_json_is_read_plain_and_compressed(app: Collected, coding: str) -> None:
    raw = RECORDED.read_bytes()
    body = gzip.compress(raw) if coding == "gzip" else raw
    answer = app.post("/v1/traces", body, JSON | {"content-encoding": coding})
    assert (answer.status_code, answer.json()) == (200, {})
    app.judge()
    assert app.outcome("judged") == 1


@pytest.mark.parametrize("name", ["langchain.jsonl", "llama-index.jsonl", "haystack.jsonl"])
def test_a_span_may_hold_what_a_log_of_its_tool_has(app: Collected, name: str) -> None:
    exports = RECORDED.parents[1] / "exports"
    recorded = json.loads((exports / name).read_text(encoding="utf-8").splitlines()[0])
    values = {"openinference.span.kind": "CHAIN", "input.value": "How hot is it?"}
    values["output.value"] = json.dumps(recorded)
    attributes = [{"key": key, "value": {"stringValue": text}} for key, text in values.items()]
    span = {"traceId": "a" * 32, "spanId": "b" * 16, "name": "rag", "attributes": attributes}
    span |= {"startTimeUnixNano": "1", "endTimeUnixNano": "2"}
    batch = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    assert app.post("/v1/traces", json.dumps(batch).encode(), JSON).status_code == 200
    app.judge()
    assert app.outcome("judged") == 1


def test_spans_of_one_trace_may_come_in_several_requests(app: Collected) -> None:
    for span in rag_spans():
        body = encode_spans([span]).SerializeToString()
        assert app.post("/v1/traces", body, PROTOBUF).status_code == 200
    app.judge()
    assert app.outcome("judged") == 1


def test_traces_that_cannot_be_judged_are_counted(app: Collected) -> None:
    child, _ = rag_spans()
    for spans in (rag_spans(documents=False), [child]):
        app.post("/v1/traces", encode_spans(spans).SerializeToString(), PROTOBUF)
    app.judge()
    assert (app.outcome("no_documents"), app.outcome("incomplete_trace")) == (1, 1)
    assert app.metric('trivet_score_count{score="faithfulness"}') == 0


def test_an_overloaded_judge_drops_traces_and_says_so(
    app: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        app.batcher, "evaluate", AsyncMock(side_effect=Overloaded("full", "windows", 1.0))
    )
    app.post("/v1/traces", encode_spans(rag_spans()).SerializeToString(), PROTOBUF)
    app.judge()
    assert app.outcome("overloaded") == 1


def test_only_the_sample_is_judged(embedded: Evaluator) -> None:
    with contextlib.closing(Collected(embedded, otlp=True, sample=1e-12)) as app:
        app.post("/v1/traces", encode_spans(rag_spans()).SerializeToString(), PROTOBUF)
        app.judge()
        assert app.metric('trivet_score_count{score="faithfulness"}') == 0


REFUSED: dict[str, tuple[bytes, dict[str, str], int, str]] = {
    "another type": (b"x", {"content-type": "text/plain"}, 422, "neither application/x-protobuf"),
    "another coding": (b"x", PROTOBUF | {"content-encoding": "br"}, 422, "neither gzip"),
    "no protobuf": (b"\xff\xff", PROTOBUF, 400, "no ExportTraceServiceRequest"),
    "no JSON": (b"{", JSON, 400, "no OTLP JSON"),
    "no object": (b"[1]", JSON, 400, "no OTLP JSON"),
    "no spans": (b'{"resourceSpans": [{"scopeSpans": 3}]}', JSON, 400, "no OTLP JSON"),
    "an id that is none": (
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "-1", "spanId": "0x1"}]}]}]}',
        JSON,
        422,
        "id of a trace or a span is malformed",
    ),
    "no gzip": (b"plain", PROTOBUF | {"content-encoding": "gzip"}, 400, "is not gzip"),
    "half a gzip": (
        gzip.compress(b"x" * 100)[:20],
        PROTOBUF | {"content-encoding": "gzip"},
        400,
        "is cut off",
    ),
    "a bomb": (
        gzip.compress(bytes(3_000_000)),
        PROTOBUF | {"content-encoding": "gzip"},
        413,
        "max_body_bytes=2000000 when unpacked",
    ),
}


@pytest.mark.parametrize(("body", "headers", "status", "message"), REFUSED.values(), ids=REFUSED)
def test_a_request_that_is_no_trace_is_refused(
    app: Collected, body: bytes, headers: dict[str, str], status: int, message: str
) -> None:
    found, _, said = refusal(app.post("/v1/traces", body, headers))
    assert found == status
    assert message in said


def test_the_route_is_there_and_described_only_when_asked_for(
    app: Collected, server: Asked
) -> None:
    assert server.post("/v1/traces", b"", PROTOBUF).status_code == 404
    assert "/v1/traces" not in openapi(server.settings)["paths"]
    assert "/v1/traces" in app.get("/openapi.json").json()["paths"]
    assert "/v1/traces" in app.get("/docs").text


@pytest.mark.anyio
async def test_the_real_exporter_reaches_a_running_server() -> None:
    settings = ServerSettings(port=0, otlp=True)
    server = RunningServer(Evaluator(backend=EvenBackend()), settings)
    with bind(settings.host, settings.port) as bound:
        await server.start(bound)
        try:
            exporter = OTLPSpanExporter(f"{server.url}/v1/traces", compression=None)
            done = await asyncio.to_thread(exporter.export, rag_spans())
            exporter.shutdown()
        finally:
            await server.stop()
    assert done.name == "SUCCESS"


# Which traces are kept, when they are complete, and what is dropped ---------------------------


def span_of(trace: str, name: str = "a", parent: str | None = None, text: str = "") -> TraceSpan:
    return TraceSpan(trace, name, parent, "chain", documents=(Document(text),))


def test_a_trace_is_complete_when_nothing_follows_its_root() -> None:
    buffer = TraceBuffer(settle_seconds=2, longest_seconds=60)
    child, root = span_of("1", "b", "a"), span_of("1")
    buffer.add([child], now=0)
    assert buffer.take(now=59) == []
    buffer.add([root], now=59)
    assert buffer.take(now=60) == []
    assert buffer.take(now=61) == [[child, root]]
    assert buffer.take(now=1000) == []


def test_a_trace_without_a_root_waits_longer() -> None:
    buffer = TraceBuffer(settle_seconds=2, longest_seconds=60)
    orphan = span_of("1", "b", "elsewhere")
    buffer.add([orphan], now=0)
    assert buffer.take(now=59) == []
    assert buffer.take(now=60) == [[orphan]]


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_the_sample_is_chosen_by_the_id_of_the_trace(share: float) -> None:
    numbers = random.Random(3)
    traces = [f"{numbers.getrandbits(128):032x}" for _ in range(2000)]
    kept = []
    for _ in range(2):
        buffer = TraceBuffer(share)
        buffer.add(map(span_of, traces), now=0)
        kept.append({spans[0].trace for spans in buffer.take(now=9)})
    assert kept[0] == kept[1]
    assert abs(len(kept[0]) / 2000 - share) < 0.03


def test_the_oldest_traces_are_dropped_for_want_of_room() -> None:
    buffer = TraceBuffer(most_characters=1000)
    assert buffer.add([span_of(f"{number:x}", text="x" * 200) for number in range(3)], now=0) == 1
    assert [spans[0].trace for spans in buffer.take(now=9)] == ["1", "2"]
    assert buffer.add([span_of("4", text="x" * 600)], now=10) == 0, "the room is free again"
