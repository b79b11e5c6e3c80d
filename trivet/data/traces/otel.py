"""Spans that OpenTelemetry exported as JSON, and those that Phoenix returns.

A record is a batch in OTLP's JSON (``resourceSpans``, as the collector's file exporter writes), a
span as the Python SDK prints it or Phoenix's API returns it (``context``, ``attributes``), or a row
of Phoenix's table of spans (``context.span_id``, ``attributes.input.value``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trivet.data.traces.attributes import span_of
from trivet.data.traces.spans import TraceSpan, name_or_none, seconds

_NANOSECONDS = 1e9


def read_otel(record: Mapping[str, Any]) -> Iterator[TraceSpan]:
    """Yield the spans of a record; ``KeyError`` or ``TypeError`` if it holds none."""
    if "resourceSpans" in record:
        for resource in record["resourceSpans"]:
            for scope in resource.get("scopeSpans") or ():
                yield from map(_otlp_span, scope.get("spans") or ())
    elif isinstance(record.get("data"), list):  # an answer of Phoenix's API
        for span in record["data"]:
            yield from read_otel(span)
    elif "context.span_id" in record:
        attributes = {
            name.removeprefix("attributes."): value
            for name, value in record.items()
            if name.startswith("attributes.") and value is not None
        }
        context = {name: record[f"context.{name}"] for name in ("trace_id", "span_id")}
        yield _printed_span({**record, "context": context, "attributes": attributes})
    else:
        yield _printed_span(record)


def _printed_span(record: Mapping[str, Any]) -> TraceSpan:
    attributes = dict(record.get("attributes") or {})
    if record.get("span_kind"):  # Phoenix's name of the same
        attributes.setdefault("openinference.span.kind", record["span_kind"])
    return span_of(
        _hex(record["context"]["trace_id"]),
        _hex(record["context"]["span_id"]),
        None if record.get("parent_id") is None else _hex(record["parent_id"]) or None,
        seconds(record.get("start_time")),
        record.get("end_time") is not None,
        attributes,
    )


def _otlp_span(span: Mapping[str, Any]) -> TraceSpan:
    return span_of(
        str(span["traceId"]).lower(),
        str(span["spanId"]).lower(),
        name_or_none(str(span.get("parentSpanId") or "").lower()),
        int(span.get("startTimeUnixNano") or 0) / _NANOSECONDS,
        int(span.get("endTimeUnixNano") or 0) > 0,
        _members(span.get("attributes") or ()),
    )


def _members(pairs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {pair["key"]: _value(pair.get("value") or {}) for pair in pairs}


def _value(value: Mapping[str, Any]) -> Any:
    """Return a value of OTLP, which names its type."""
    if "kvlistValue" in value:
        return _members(value["kvlistValue"].get("values") or ())
    if "arrayValue" in value:
        return [_value(each) for each in value["arrayValue"].get("values") or ()]
    return next(iter(value.values()), None)


def _hex(value: object) -> str:
    return str(value).lower().removeprefix("0x")
