"""Spans and events of OpenTelemetry, without texts by default."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx2
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
from trivet.serve.http.telemetry import CAPTURE_CONTENT, Telemetry

EXAMPLE = {
    "question": "Who keeps the lighthouse?",
    "contexts": ["The lighthouse has had no keeper since 1931."],
    "response": "A keeper of the name of Jonas lives there with two dogs.",
    "id": "q7",
}
TEXTS = ("lighthouse", "Jonas", "1931")
Ask = Callable[[httpx2.AsyncClient], Awaitable[Any]]


class Told:
    """Spans and events sent to the exporters."""

    def __init__(self, *, content: bool = False) -> None:
        self._spans, self._logs = InMemorySpanExporter(), InMemoryLogRecordExporter()
        traces, logs = (
            TracerProvider(shutdown_on_exit=False),
            LoggerProvider(shutdown_on_exit=False),
        )
        traces.add_span_processor(SimpleSpanProcessor(self._spans))
        logs.add_log_record_processor(SimpleLogRecordProcessor(self._logs))
        self.telemetry = Telemetry(traces, logs, content=content)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._spans.get_finished_spans())

    @property
    def events(self) -> list[Any]:
        return [data.log_record for data in self._logs.get_finished_logs()]

    def everything(self) -> str:
        return "".join(span.to_json() for span in self.spans) + "".join(
            f"{event.body} {event.attributes}" for event in self.events
        )


@pytest.fixture
def ask(embedded: trivet.Evaluator) -> Callable[[Ask, Telemetry | None], Any]:
    """Return a function that sends requests to an app with telemetry."""

    def ask_app(asking: Ask, telemetry: Telemetry | None) -> Any:
        asked = Asked(embedded, telemetry=telemetry)
        try:
            return asked.run(asking(asked.client))
        finally:
            asked.close()

    return ask_app


def test_a_request_is_a_span_with_its_stages_and_a_score_an_event(ask: Any) -> None:
    told = Told()

    async def asking(client: httpx2.AsyncClient) -> dict[str, Any]:
        response = await client.post("/v1/evaluate", json=EXAMPLE, headers={"x-request-id": "r-7"})
        assert response.status_code == 200
        found: dict[str, Any] = response.json()
        return found

    verdict = ask(asking, told.telemetry)
    (span,) = told.spans
    assert span.name == "POST /v1/evaluate"
    attributes = dict(span.attributes or {})
    seconds = [attributes.pop(f"trivet.{s}_seconds") for s in ("tokenize", "queue", "infer")]
    seconds.append(attributes.pop("trivet.finish_seconds"))
    assert all(isinstance(value, float) and value >= 0 for value in seconds)
    assert sum(value for value in seconds if isinstance(value, float)) > 0
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
    assert scores == {
        name: verdict[name] for name in ("faithfulness", "relevance", "utilization", "completeness")
    }
    assert verdict["adherent"] is False


def test_the_clients_trace_is_continued(ask: Any) -> None:
    told = Told()
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

    async def asking(client: httpx2.AsyncClient) -> None:
        carried = {"traceparent": f"00-{trace}-{parent}-01", "tracestate": "vendor=1"}
        await client.post("/v1/evaluate", json=EXAMPLE, headers=carried)
        await client.post("/v1/evaluate", json=EXAMPLE, headers={"traceparent": "nonsense"})

    ask(asking, told.telemetry)
    first, second = told.spans
    assert f"{first.context.trace_id:032x}" == trace
    assert first.parent is not None
    assert f"{first.parent.span_id:016x}" == parent
    assert first.context.trace_state == {"vendor": "1"}
    assert {f"{event.trace_id:032x}" for event in told.events[:4]} == {trace}
    assert second.parent is None


def test_failures_are_counted_and_failures_of_the_server_are_errors(
    ask: Any, embedded: trivet.Evaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told()
    empty = EXAMPLE | {"contexts": []}

    async def asking(client: httpx2.AsyncClient) -> list[int]:
        many = await client.post("/v1/evaluate", json={"examples": [EXAMPLE, empty]})
        bad = await client.post("/v1/evaluate", content=b"{")
        nowhere = await client.post("/v9/evaluate", json=EXAMPLE)

        def fail(windows: Any) -> Any:
            raise RuntimeError("quotes Jonas")

        monkeypatch.setattr(embedded.backend, "run", fail)
        broken = await client.post("/v1/evaluate", json=EXAMPLE)
        return [answer.status_code for answer in (many, bad, nowhere, broken)]

    assert ask(asking, told.telemetry) == [200, 400, 404, 500]
    many, bad, nowhere, broken = told.spans
    assert many.attributes is not None
    assert (many.attributes["trivet.examples"], many.attributes["trivet.failed_examples"]) == (2, 1)
    assert len(told.events) == 4
    assert bad.status.status_code is StatusCode.UNSET, "a client's mistake is no error of a server"
    assert "http.route" not in (nowhere.attributes or {})
    assert nowhere.name == "POST"
    assert broken.status.status_code is StatusCode.ERROR
    assert (broken.attributes or {})["error.type"] == "500"
    assert "Jonas" not in told.everything()


def test_texts_are_exported_only_if_that_is_turned_on(ask: Any) -> None:
    async def asking(client: httpx2.AsyncClient) -> None:
        await client.post("/v1/evaluate", json=EXAMPLE)
        await client.post("/v1/relevance", json={k: EXAMPLE[k] for k in ("question", "contexts")})

    silent, telling = Told(), Told(content=True)
    ask(asking, silent.telemetry)
    assert [text for text in TEXTS if text in silent.everything()] == []
    assert len(silent.events) == 4 + 1, "before there is an answer, relevance is the only score"
    ask(asking, telling.telemetry)
    explained = [
        event.attributes["gen_ai.evaluation.explanation"]
        for event in telling.events
        if "gen_ai.evaluation.explanation" in event.attributes
    ]
    assert len(explained) == 1
    assert explained[0].startswith("unsupported: '")
    assert "Jonas" in explained[0]


def test_get_requests_have_no_spans(ask: Any) -> None:
    told = Told()

    async def asking(client: httpx2.AsyncClient) -> list[int]:
        paths = ("/health/live", "/metrics", "/v1/info")
        return [(await client.get(path)).status_code for path in paths]

    assert ask(asking, told.telemetry) == [200, 200, 200]
    assert told.spans == []

    async def asking_for_verdicts(client: httpx2.AsyncClient) -> int:
        return (await client.post("/v1/evaluate", json=EXAMPLE)).status_code

    assert ask(asking_for_verdicts, None) == 200
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


@pytest.mark.parametrize("capture", [None, "true"])
def test_a_collector_is_configured_by_environment_variables(
    ask: Any,
    collector: tuple[str, dict[str, bytes]],
    monkeypatch: pytest.MonkeyPatch,
    capture: str | None,
) -> None:
    url, got = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    if capture is None:
        monkeypatch.delenv(CAPTURE_CONTENT, raising=False)
    else:
        monkeypatch.setenv(CAPTURE_CONTENT, capture)

    async def asking(client: httpx2.AsyncClient) -> int:
        return (await client.post("/v1/evaluate", json=EXAMPLE)).status_code

    telemetry = Telemetry.to_collector()
    assert telemetry.content is (capture == "true")
    assert ask(asking, telemetry) == 200
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
