"""OpenTelemetry: a span for each request that asks for verdicts, an event for each score.

The events are ``gen_ai.evaluation.result`` of the semantic conventions for generative AI. They
stand in the request's span, which continues the caller's trace where it sends ``traceparent``. No
text of a request is told unless that is asked for. Needs the extra ``otel``.
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
from opentelemetry.trace import Span, SpanKind, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import trivet
from trivet.records import Evaluation, FailedEvaluation
from trivet.serve.http.metrics import STAGES
from trivet.serve.scheduling.predictions import Judged
from trivet.verdict_json import SCORES

EVENT = "gen_ai.evaluation.result"
CAPTURE_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable by which instrumentations of generative AI are told to tell texts as well."""

_CAPTURING = ("true", "event_only", "span_and_event")
_CARRIED = ("traceparent", "tracestate")
_SHOWN_SPANS = 5
# Work in flight may have used up the grace by then; a server must be gone a second after it.
_CLOSE_SECONDS = 0.5


class Telemetry:
    """Tells a collector of requests and verdicts.

    Attributes:
        content: Whether unsupported texts stand in the events.
    """

    def __init__(
        self,
        traces: TracerProvider,
        logs: LoggerProvider,
        *,
        content: bool = False,
        close: tuple[Callable[[], object], ...] = (),
    ) -> None:
        """Say where spans and events go.

        Args:
            traces: Makes the spans.
            logs: Takes the events.
            content: Whether an event quotes what is unsupported.
            close: What ends the providers, each called in a thread of its own.
        """
        self.content = content
        self._tracer = traces.get_tracer("trivet", trivet.__version__)
        self._events = logs.get_logger("trivet", trivet.__version__)
        self._close = close
        self._propagator = TraceContextTextMapPropagator()

    @classmethod
    def to_collector(cls) -> Self:
        """Send to a collector over HTTP, as the variables of OpenTelemetry say.

        ``OTEL_EXPORTER_OTLP_ENDPOINT`` says where (``http://localhost:4318`` if not set),
        ``OTEL_SERVICE_NAME`` and ``OTEL_RESOURCE_ATTRIBUTES`` who sends, ``OTEL_TRACES_SAMPLER``
        how many spans.
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
        """Return an app with a span around each of its POST requests; the outermost middleware.

        Args:
            app: What answers. It leaves in ``scope["state"]`` the ``request_id`` and what was
                ``judged``.
        """

        async def traced(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or scope["method"] != "POST":
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
                record_exception=False,  # its message may quote what was asked
                set_status_on_exception=False,
            ) as span:
                try:
                    await app(scope, receive, send_noted)
                finally:
                    self._note(span, scope, status or 500)

        return traced

    def close(self, timeout_seconds: float = _CLOSE_SECONDS) -> None:
        """Send what is left, and wait no longer than that for a collector that is not there."""
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
        if "judged" in state:
            self._note_judged(span, state["judged"])

    def _note_judged(self, span: Span, judged: Judged) -> None:
        failed = [result for result in judged.results if isinstance(result, FailedEvaluation)]
        span.set_attribute("trivet.examples", len(judged.results))
        span.set_attribute("trivet.failed_examples", len(failed))
        span.set_attribute("trivet.windows", judged.windows)
        for stage in STAGES:
            span.set_attribute(f"trivet.{stage}_seconds", getattr(judged.seconds, stage))
        for result in judged.results:
            if isinstance(result, Evaluation):
                self._tell(result)

    def _tell(self, verdict: Evaluation) -> None:
        """Emit an event for each score that there is."""
        for score in SCORES:
            value = getattr(verdict, score)
            if value is None:
                continue
            told: dict[str, str | float] = {
                "gen_ai.evaluation.name": score,
                "gen_ai.evaluation.score.value": value,
            }
            if verdict.id is not None:
                told["trivet.example_id"] = verdict.id
            if score == "faithfulness":
                label = "adherent" if verdict.adherent else "not_adherent"
                told["gen_ai.evaluation.score.label"] = label
                if self.content:
                    told["gen_ai.evaluation.explanation"] = _unsupported(verdict)
            self._events.emit(
                timestamp=time.time_ns(),
                severity_number=SeverityNumber.INFO,
                event_name=EVENT,
                attributes=told,
            )


def _unsupported(verdict: Evaluation) -> str:
    """Quote what nothing supports, the first few stretches of it."""
    if not verdict.unsupported:
        return "nothing unsupported was found"
    return "unsupported: " + ", ".join(repr(s.text) for s in verdict.unsupported[:_SHOWN_SPANS])
