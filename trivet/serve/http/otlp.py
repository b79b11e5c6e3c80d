"""``/v1/traces``: a receiver of OpenTelemetry's traces (OTLP/HTTP) that judges RAG answers.

Exporters are answered at once; a sample of the traces is judged when it is complete, through the
same queue as requests. Scores go to the metrics, and as events to the collector of ``--otel``.
Needs the extra ``otel``.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import re
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from trivet.errors import ExampleError
from trivet.logs.otel import read_otel, span_of
from trivet.logs.trace_examples import TraceExample, TraceSpan, trace_example
from trivet.records import Evaluation, RagExample
from trivet.serve.http.errors import RequestError
from trivet.serve.http.metrics import Metrics
from trivet.serve.http.settings import OTLP_PATH, ServerSettings
from trivet.serve.scheduling.batched_request import Draining, Expired, Overloaded
from trivet.serve.scheduling.batcher import Batcher

if TYPE_CHECKING:
    from trivet.serve.http.telemetry import Telemetry

logger = logging.getLogger(__name__)


_ID_DIGITS, _IDS = 16, 1 << 64
_SPAN_CHARACTERS = 200  # of a span without texts


@dataclass
class _OpenTrace:
    spans: list[TraceSpan] = field(default_factory=list)
    characters: int = 0
    changed: float = 0.0
    has_root: bool = False


class TraceBuffer:
    """Spans by trace until the trace is complete.

    A trace is complete when its root has come, which ends last, and no span for a while after it;
    or when nothing of it has come for long, because its root may belong to another service.
    """

    def __init__(
        self,
        sample: float = 1.0,
        *,
        settle_seconds: float = 2.0,
        longest_seconds: float = 60.0,
        most_characters: int = 100_000_000,
    ) -> None:
        """Keep the settings.

        Args:
            sample: Share of the traces that is kept, chosen by their ids, in (0, 1].
            settle_seconds: Time without a new span after the root.
            longest_seconds: Time without a new span of a trace without a root.
            most_characters: Maximum characters of all spans; beyond it the oldest traces go.
        """
        self._limit = int(sample * _IDS)
        self._settle = settle_seconds
        self._longest = longest_seconds
        self._most = most_characters
        self._characters = 0
        self._open: dict[str, _OpenTrace] = {}

    def add(self, spans: Iterable[TraceSpan], now: float) -> int:
        """Add spans of sampled traces; return how many traces were dropped for want of room."""
        for span in spans:
            if int(span.trace[-_ID_DIGITS:], 16) >= self._limit:
                continue
            trace = self._open.setdefault(span.trace, _OpenTrace())
            texts = (span.question, span.answer, *(each.text for each in span.documents))
            characters = _SPAN_CHARACTERS + sum(len(text) for text in texts if text)
            trace.spans.append(span)
            trace.characters += characters
            trace.changed = now
            trace.has_root = trace.has_root or span.parent is None
            self._characters += characters
        dropped = 0
        while self._characters > self._most:
            self._pop(next(iter(self._open)))
            dropped += 1
        return dropped

    def take(self, now: float) -> list[list[TraceSpan]]:
        """Remove and return the traces that are complete."""
        ready = [
            name
            for name, trace in self._open.items()
            if now - trace.changed >= (self._settle if trace.has_root else self._longest)
        ]
        return [self._pop(name) for name in ready]

    def _pop(self, name: str) -> list[TraceSpan]:
        trace = self._open.pop(name)
        self._characters -= trace.characters
        return trace.spans


_JSON, _PROTOBUF = "application/json", "application/x-protobuf"
_TICK_SECONDS = 1.0
_AT_ONCE = 8  # traces in the queue, so that requests of clients find room
_TRACE_ID, _SPAN_ID = re.compile(r"[0-9a-f]{32}"), re.compile(r"[0-9a-f]{16}")
_GZIP = 31  # window bits of zlib
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class TraceReceiver:
    """Receives spans, and judges the traces that they complete."""

    def __init__(
        self,
        batcher: Batcher,
        metrics: Metrics,
        settings: ServerSettings,
        telemetry: Telemetry | None = None,
    ) -> None:
        """Keep the parts; `run` judges. Without ``telemetry`` no events are exported."""
        self._batcher = batcher
        self._metrics = metrics
        self._telemetry = telemetry
        self._most_bytes = settings.max_body_bytes
        self._timeout = settings.max_timeout_ms / 1000
        self._buffer = TraceBuffer(settings.sample)

    def routes(self) -> list[Route]:
        """Return the route of OTLP/HTTP."""
        return [Route(OTLP_PATH, self._receive, methods=["POST"])]

    async def run(self) -> None:
        """Judge complete traces until cancelled."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            await self.judge(time.monotonic())

    async def judge(self, now: float) -> None:
        """Judge the traces that are complete at a moment of ``time.monotonic``."""
        traces = iter(self._buffer.take(now))
        while group := list(itertools.islice(traces, _AT_ONCE)):
            outcomes = await asyncio.gather(*map(self._judge, group))
            for outcome in outcomes:
                self._metrics.traced(outcome)

    async def _receive(self, request: Request) -> Response:
        if self._batcher.state().draining:
            raise Draining("the server stops; send the spans to another one")
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media not in (_JSON, _PROTOBUF):
            message = f"the Content-Type is neither {_PROTOBUF} nor {_JSON}"
            raise RequestError("validation", message)
        body = await request.body()
        coding = request.headers.get("content-encoding", "identity").lower()
        spans = await asyncio.to_thread(self._parse, body, coding, media)
        dropped = self._buffer.add(spans, time.monotonic())
        for _ in range(dropped):
            self._metrics.traced("dropped")
        if media == _JSON:
            return Response("{}", media_type=_JSON)
        answer = ExportTraceServiceResponse().SerializeToString()
        return Response(answer, media_type=_PROTOBUF)

    def _parse(self, body: bytes, coding: str, media: str) -> list[TraceSpan]:
        raw = self._decompress(body, coding)
        try:
            found = _protobuf_spans(raw)
            if media == _JSON:
                found = read_otel({"resourceSpans": json.loads(raw).get("resourceSpans") or ()})
            spans = list(found)
            if not all(_TRACE_ID.fullmatch(s.trace) and _SPAN_ID.fullmatch(s.id) for s in spans):
                raise RequestError("validation", "an id of a trace or a span is malformed")
        except DecodeError as error:
            raise RequestError("malformed", "the body is no ExportTraceServiceRequest") from error
        except _UNREADABLE as error:
            raise RequestError("invalid_json", "the body is no OTLP JSON of traces") from error
        return spans

    def _decompress(self, body: bytes, coding: str) -> bytes:
        if coding == "identity":
            return body
        if coding != "gzip":
            raise RequestError("validation", "the Content-Encoding is neither gzip nor identity")
        unpacker = zlib.decompressobj(_GZIP)
        try:
            raw = unpacker.decompress(body, self._most_bytes)
        except zlib.error as error:
            raise RequestError("malformed", "the body is not gzip") from error
        if unpacker.unconsumed_tail:
            raise RequestError(
                "too_large",
                f"the body has more than max_body_bytes={self._most_bytes} when unpacked; send "
                "smaller batches, or raise --max-body-bytes",
            )
        if not unpacker.eof:
            raise RequestError("malformed", "the gzip of the body is cut off")
        return raw

    async def _judge(self, spans: list[TraceSpan]) -> str:
        """Judge one trace; return what became of it."""
        try:
            trace = trace_example(spans)
            return await self._evaluate(trace)
        except ExampleError as error:
            return error.code
        except (Overloaded, Expired, Draining):
            return "overloaded"
        except Exception:
            logger.exception("a trace could not be judged")  # without its texts
            return "failed"

    async def _evaluate(self, trace: TraceExample) -> str:
        texts = tuple(each.text for each in trace.documents if each.text is not None)
        example = RagExample(trace.question, texts, trace.answer, trace.trace)
        predictions = await self._batcher.evaluate([example], timeout_seconds=self._timeout)
        self._metrics.evaluated(predictions)
        (verdict,) = predictions.results
        if not isinstance(verdict, Evaluation):
            return "failed"
        if self._telemetry is not None:
            self._telemetry.record(verdict, trace.trace, trace.span)
        return "judged"


def _protobuf_spans(raw: bytes) -> Iterator[TraceSpan]:
    for resource in ExportTraceServiceRequest.FromString(raw).resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield span_of(
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex() or None,
                    span.start_time_unix_nano / 1e9,
                    span.end_time_unix_nano > 0,
                    {each.key: _value(each.value) for each in span.attributes},
                )


def _value(value: Any) -> Any:
    """Return a value of protobuf, which names its type."""
    kind = value.WhichOneof("value")
    if kind == "kvlist_value":
        return {each.key: _value(each.value) for each in value.kvlist_value.values}
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return None if kind is None else getattr(value, kind)
