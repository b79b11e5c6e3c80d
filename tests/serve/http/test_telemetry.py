"""Spans and events of OpenTelemetry, without texts by default."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import trivet
from tests.serve.http.conftest import Asked
from trivet.serve.http.server_settings import ServerSettings
from trivet.serve.http.telemetry import CAPTURE_CONTENT, Telemetry

EXAMPLE = {
    "question": "Who keeps the lighthouse?",
    "contexts": ["The lighthouse has had no keeper since 1931."],
    "response": "A keeper of the name of Jonas lives there with two dogs.",
    "id": "q7",
}
TEXTS = ("lighthouse", "Jonas", "since 1931")  # a score may hold these digits


class Told(Asked):
    """An app whose spans and events are kept."""

    def __init__(
        self, evaluator: trivet.Evaluator, *, content: bool = False, **settings: Any
    ) -> None:
        self._spans, self._logs = InMemorySpanExporter(), InMemoryLogRecordExporter()
        traces = TracerProvider(shutdown_on_exit=False)
        traces.add_span_processor(SimpleSpanProcessor(self._spans))
        logs = LoggerProvider(shutdown_on_exit=False)
        logs.add_log_record_processor(SimpleLogRecordProcessor(self._logs))
        telemetry = Telemetry(traces, logs, content=content)
        super().__init__(evaluator, ServerSettings(**settings), telemetry=telemetry)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._spans.get_finished_spans())

    @property
    def events(self) -> list[Any]:
        return [data.log_record for data in self._logs.get_finished_logs()]

    def everything(self) -> str:
        events = [f"{event.body} {event.attributes}" for event in self.events]
        return "".join([*(span.to_json() for span in self.spans), *events])


@pytest.fixture
def told(embedded: trivet.Evaluator) -> Iterator[Told]:
    with contextlib.closing(Told(embedded)) as app:
        yield app


def test_a_request_is_a_span_with_its_stages_and_a_score_an_event(told: Told) -> None:
    response = told.post("/v1/evaluate", EXAMPLE, {"x-request-id": "r-7"})
    assert response.status_code == 200
    verdict = response.json()
    (span,) = told.spans
    assert span.name == "POST /v1/evaluate"
    attributes: dict[str, Any] = dict(span.attributes or {})
    stages = ("tokenize", "queue", "infer", "finish")
    seconds = [attributes.pop(f"trivet.{stage}_seconds") for stage in stages]
    assert min(seconds) >= 0
    assert sum(seconds) > 0
    assert attributes == {
        "http.request.method": "POST",
        "http.route": "/v1/evaluate",
        "http.response.status_code": 200,
        "trivet.request_id": "r-7",
        "trivet.examples": 1,
        "trivet.failed_examples": 0,
        "trivet.windows": verdict["windows"],
    }
    assert span.status.status_code is StatusCode.UNSET
    scores = {}
    for event in told.events:
        assert event.event_name == "gen_ai.evaluation.result"
        assert (event.trace_id, event.span_id) == (span.context.trace_id, span.context.span_id)
        named = dict(event.attributes)
        scores[named.pop("gen_ai.evaluation.name")] = named.pop("gen_ai.evaluation.score.value")
        assert named.pop("trivet.example_id") == "q7"
        label = named.pop("gen_ai.evaluation.score.label", None)
        assert label in (None, "not_adherent")
        assert named == {}
    # Nothing is supported, so nothing can be complete.
    assert scores == {name: verdict[name] for name in ("faithfulness", "relevance", "utilization")}
    assert verdict["adherent"] is False


def test_the_clients_trace_is_continued(told: Told) -> None:
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    carried = {"traceparent": f"00-{trace}-{parent}-01", "tracestate": "vendor=1"}
    told.post("/v1/evaluate", EXAMPLE, carried)
    told.post("/v1/evaluate", EXAMPLE, {"traceparent": "nonsense"})
    first, second = told.spans
    assert f"{first.context.trace_id:032x}" == trace
    assert first.parent is not None
    assert f"{first.parent.span_id:016x}" == parent
    assert first.context.trace_state == {"vendor": "1"}
    assert {f"{event.trace_id:032x}" for event in told.events[:3]} == {trace}
    assert second.parent is None


def test_failures_are_counted_and_failures_of_the_server_are_errors(
    told: Told, embedded: trivet.Evaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = {"examples": [EXAMPLE, EXAMPLE | {"contexts": []}]}
    assert told.post("/v1/evaluate", examples).status_code == 200
    assert told.post("/v1/evaluate", b"{").status_code == 400
    assert told.post("/v9/evaluate", EXAMPLE).status_code == 404
    monkeypatch.setattr(embedded.backend, "run", Mock(side_effect=RuntimeError("quotes Jonas")))
    assert told.post("/v1/evaluate", EXAMPLE).status_code == 500
    many, bad, nowhere, broken = told.spans
    assert many.attributes is not None
    assert (many.attributes["trivet.examples"], many.attributes["trivet.failed_examples"]) == (2, 1)
    assert len(told.events) == 3
    assert bad.status.status_code is StatusCode.UNSET, "a client's mistake is not a server's error"
    assert "http.route" not in (nowhere.attributes or {})
    assert nowhere.name == "POST"
    assert broken.status.status_code is StatusCode.ERROR
    assert (broken.attributes or {})["error.type"] == "500"
    assert "Jonas" not in told.everything()


def test_texts_are_exported_only_on_request(told: Told, embedded: trivet.Evaluator) -> None:
    with contextlib.closing(Told(embedded, content=True)) as telling:
        for app in (told, telling):
            app.post("/v1/evaluate", EXAMPLE)
            app.post("/v1/relevance", {name: EXAMPLE[name] for name in ("question", "contexts")})
    assert [text for text in TEXTS if text in told.everything()] == []
    assert len(told.events) == 3 + 1, "before there is an answer, relevance is the only score"
    name = "gen_ai.evaluation.explanation"
    (explained,) = [e.attributes[name] for e in telling.events if name in e.attributes]
    assert explained.startswith("unsupported: '")
    assert "Jonas" in explained


def test_get_requests_have_no_spans(told: Told) -> None:
    for path in ("/health/live", "/metrics", "/v1/info"):
        assert told.get(path).status_code == 200
    assert told.spans == []


@pytest.fixture
def collector() -> Iterator[tuple[str, dict[str, bytes]]]:
    """Run a collector on this machine that keeps what it gets, by path."""
    got: dict[str, bytes] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got[self.path] = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *values: Any) -> None:  # noqa: A002 (the base's name)
            """Say nothing: a test prints nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", got
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("capture", ["", "true"])
def test_a_collector_is_configured_by_environment_variables(
    embedded: trivet.Evaluator,
    collector: tuple[str, dict[str, bytes]],
    monkeypatch: pytest.MonkeyPatch,
    capture: str,
) -> None:
    url, got = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(CAPTURE_CONTENT, capture)
    telemetry = Telemetry.to_collector()
    assert telemetry.content is (capture == "true")
    with contextlib.closing(Asked(embedded, telemetry=telemetry)) as app:
        assert app.post("/v1/evaluate", EXAMPLE).status_code == 200
    telemetry.close(timeout_seconds=20)
    assert sorted(got) == ["/v1/logs", "/v1/traces"]
    (spans,) = ExportTraceServiceRequest.FromString(got["/v1/traces"]).resource_spans
    (logs,) = ExportLogsServiceRequest.FromString(got["/v1/logs"]).resource_logs
    named = {item.key: item.value.string_value for item in spans.resource.attributes}
    assert named["service.name"] == "trivet"
    assert named["service.version"] == trivet.__version__
    assert named["deployment.environment.name"] == "test"
    (span,) = spans.scope_spans[0].spans
    assert span.name == "POST /v1/evaluate"
    records = logs.scope_logs[0].log_records
    assert {record.event_name for record in records} == {"gen_ai.evaluation.result"}
    assert {record.span_id for record in records} == {span.span_id}


def test_a_collector_that_does_not_answer_delays_nothing() -> None:
    never = threading.Event()  # would block this test for good, were it waited for
    traces, logs = TracerProvider(shutdown_on_exit=False), LoggerProvider(shutdown_on_exit=False)
    stuck = Telemetry(traces, logs, close=(never.wait,))
    stuck.close(timeout_seconds=0.01)
    assert not never.is_set()
    never.set()
