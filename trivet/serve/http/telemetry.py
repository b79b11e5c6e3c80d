"""OpenTelemetry: a span for each POST request, and an event for each score.

The events are ``gen_ai.evaluation.result`` of the semantic conventions for generative AI, inside
the request's span, which continues the trace in ``traceparent``. Texts of a request are exported
only if that is turned on.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Self

from opentelemetry._logs import LoggerProvider, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider as SdkLoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import (
    Span,
    SpanKind,
    StatusCode,
    TracerProvider,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import trivet
from trivet.records import Evaluation
from trivet.serve.http.batcher import Predictions
from trivet.serve.http.prometheus_metrics import STAGES
from trivet.verdict_json import SCORES, quote_unsupported

EVENT = "gen_ai.evaluation.result"
CAPTURE_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Environment variable that turns the export of texts on."""

_CAPTURING = ("true", "event_only", "span_and_event")
_CARRIED = ("traceparent", "tracestate")
# The grace period may be over; the process must end within a second.
_CLOSE_SECONDS = 0.5


class Telemetry:
    """Exporter of spans and scores; with ``content``, events quote unsupported spans."""

    def __init__(
        self,
        traces: TracerProvider,
        logs: LoggerProvider,
        *,
        content: bool = False,
        close: tuple[Callable[[], object], ...] = (),
    ) -> None:
        """Export to the providers; ``close`` shuts them down, each function in a thread."""
        self.content = content
        self._tracer = traces.get_tracer("trivet", trivet.__version__)
        self._events = logs.get_logger("trivet", trivet.__version__)
        self._close = close
        self._propagator = TraceContextTextMapPropagator()

    @classmethod
    def to_collector(cls) -> Self:
        """Return an exporter to a collector over HTTP, configured by OpenTelemetry's variables.

        They are ``OTEL_EXPORTER_OTLP_ENDPOINT`` (default ``http://localhost:4318``),
        ``OTEL_SERVICE_NAME``, ``OTEL_RESOURCE_ATTRIBUTES`` and ``OTEL_TRACES_SAMPLER``.
        """
        named = Resource.create({"service.name": "trivet", "service.version": trivet.__version__})
        resource = named.merge(OTELResourceDetector().detect())
        traces = SdkTracerProvider(resource=resource, shutdown_on_exit=False)
        traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        logs = SdkLoggerProvider(resource=resource, shutdown_on_exit=False)
        logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
        content = os.environ.get(CAPTURE_CONTENT, "").lower() in _CAPTURING
        return cls(traces, logs, content=content, close=(traces.shutdown, logs.shutdown))

    def around(self, app: ASGIApp) -> ASGIApp:
        """Return an app with a span around each POST request; the outermost middleware."""

        async def traced(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["method"] != "POST":
                await app(scope, receive, send)
                return
            status = 0

            async def send_noted(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                await send(message)

            headers = Headers(scope=scope)
            carried = {name: headers[name] for name in _CARRIED if name in headers}
            with self._tracer.start_as_current_span(
                "POST",
                context=self._propagator.extract(carried),
                kind=SpanKind.SERVER,
                attributes={"http.request.method": "POST"},
                record_exception=False,  # its message may quote the request
                set_status_on_exception=False,
            ) as span:
                try:
                    await app(scope, receive, send_noted)
                finally:
                    self._note(span, scope, status or 500)

        return traced

    def close(self, timeout_seconds: float = _CLOSE_SECONDS) -> None:
        """Export what is left; a collector that does not answer is given up after the timeout."""
        threads = [threading.Thread(target=close, daemon=True) for close in self._close]
        for thread in threads:
            thread.start()
        ends = time.monotonic() + timeout_seconds
        for thread in threads:
            thread.join(max(0.0, ends - time.monotonic()))

    def _note(self, span: Span, scope: Scope, status: int) -> None:
        route = getattr(scope.get("route"), "path", None)
        if route is not None:
            span.update_name(f"POST {route}")
            span.set_attribute("http.route", route)
        span.set_attribute("http.response.status_code", status)
        if status >= 500:
            span.set_attribute("error.type", str(status))
            span.set_status(StatusCode.ERROR)
        state = scope.get("state", {})
        if "request_id" in state:
            span.set_attribute("trivet.request_id", state["request_id"])
        predictions: Predictions | None = state.get("predictions")
        if predictions is None:
            return
        verdicts = [result for result in predictions.results if isinstance(result, Evaluation)]
        span.set_attribute("trivet.examples", len(predictions.results))
        span.set_attribute("trivet.failed_examples", len(predictions.results) - len(verdicts))
        span.set_attribute("trivet.windows", predictions.windows)
        for stage in STAGES:
            span.set_attribute(f"trivet.{stage}_seconds", getattr(predictions.seconds, stage))
        for verdict in verdicts:
            self._emit(verdict)

    def _emit(self, verdict: Evaluation) -> None:
        """Emit an event for each score of a verdict, in the current span."""
        for score in SCORES:
            value = getattr(verdict, score)
            if value is None:
                continue
            attributes: dict[str, str | float] = {
                "gen_ai.evaluation.name": score,
                "gen_ai.evaluation.score.value": value,
            }
            if verdict.id is not None:
                attributes["trivet.example_id"] = verdict.id
            if score == "faithfulness":
                label = "adherent" if verdict.adherent else "not_adherent"
                attributes["gen_ai.evaluation.score.label"] = label
                if self.content:
                    attributes["gen_ai.evaluation.explanation"] = quote_unsupported(verdict)
            self._events.emit(
                timestamp=time.time_ns(),
                severity_number=SeverityNumber.INFO,
                event_name=EVENT,
                attributes=attributes,
            )
