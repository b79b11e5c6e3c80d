"""Spans exported from Langfuse, LangSmith and OpenTelemetry, and those that Phoenix returns.

Langfuse's are rows of a table, or one trace with its parts; LangSmith's are of its bulk export, or
of its API and SDK. A record of OpenTelemetry is a batch in OTLP's JSON (``resourceSpans``, as the
collector's file exporter writes), a span as the Python SDK prints it or Phoenix's API returns it
(``context``, ``attributes``), or a row of Phoenix's table of spans (``context.span_id``,
``attributes.input.value``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trivet.logs.paths import parse_nested
from trivet.logs.trace_examples import KINDS, Document, Kind, TraceSpan, name_or_none, seconds
from trivet.logs.trace_texts import answer_in, documents_among, documents_in, question_in


def read_langfuse(record: Mapping[str, Any]) -> Iterator[TraceSpan]:
    """Yield the spans of a record; ``KeyError`` or ``TypeError`` if it holds none.

    Names are those of the API (``traceId``) or of the tables (``trace_id``).
    """
    trace = record.get("trace")
    if isinstance(trace, Mapping):  # a trace downloaded from the page
        record = {"observations": (), **record, **trace}
    if isinstance(record.get("data"), list):  # an answer of the API
        for row in record["data"]:
            yield from read_langfuse(row)
        return
    rows: tuple[Mapping[str, Any], ...] = (record,)
    if "observations" in record:
        rows = tuple({"trace_id": record["id"], **row} for row in record["observations"])
    for row in rows:
        yield _span(
            str(row["type"]),
            (row["traceId"] if "traceId" in row else row["trace_id"], row["id"]),
            row.get("parentObservationId") or row.get("parent_observation_id"),
            row.get("startTime") or row.get("start_time"),
            bool(row.get("endTime") or row.get("end_time")) or row["type"] == "EVENT",
            (row.get("input"), row.get("output"), row.get("metadata")),
        )


def read_langsmith(record: Mapping[str, Any]) -> Iterator[TraceSpan]:
    """Yield the runs of a record; ``KeyError`` or ``TypeError`` if it holds none."""
    if isinstance(record.get("runs"), list):  # an answer of the API
        for run in record["runs"]:
            yield from read_langsmith(run)
        return
    yield _span(
        str(record["run_type"]),
        (record["trace_id"], record["id"]),
        record.get("parent_run_id"),
        record.get("start_time"),
        record.get("end_time") not in (None, ""),
        (record.get("inputs"), record.get("outputs")),
    )
    for child in record.get("child_runs") or ():
        yield from read_langsmith(child)


def _span(
    named: str, ids: tuple[Any, Any], parent: Any, start: Any, ended: bool, texts: tuple[Any, ...]
) -> TraceSpan:
    """Return a span of a kind as the tool names it; ``texts`` are input, output and metadata."""
    kind = KINDS.get(named.lower(), "other")
    asked, returned = texts[:2]
    is_search = kind in ("retriever", "reranker")
    is_model = kind in ("chain", "llm")
    among = documents_among(*texts) if kind == "chain" else ()
    return TraceSpan(
        trace=str(ids[0]),
        id=str(ids[1]),
        parent=name_or_none(parent),
        kind=kind,
        start=seconds(start),
        ended=ended,
        question=question_in(asked) if is_search or is_model else None,
        answer=answer_in(returned) if is_model else None,
        documents=documents_in(returned) if is_search else among,
    )


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
        return [_value(item) for item in value["arrayValue"].get("values") or ()]
    return next(iter(value.values()), None)


def _hex(value: object) -> str:
    return str(value).lower().removeprefix("0x")


_DOCUMENT = re.compile(
    r"(?:retrieval\.|reranker\.output_)documents\.([0-9]+)\.document\.(content|id)"
)


def span_of(
    trace: str,
    span: str,
    parent: str | None,
    start: float,
    ended: bool,
    attributes: Mapping[str, Any],
) -> TraceSpan:
    """Return a span with the texts of its attributes, which may be flat or nested."""
    flat = _flat(attributes)
    if "openinference.span.kind" in flat:
        kind = KINDS.get(str(flat["openinference.span.kind"]).lower(), "other")
        texts = _openinference(flat, kind)
    else:
        operation = flat.get("gen_ai.operation.name")
        kind = "chain" if operation is None else KINDS.get(str(operation).lower(), "other")
        texts = _gen_ai(flat, kind)
    question, answer, documents = texts if kind != "other" else (None, None, ())
    return TraceSpan(trace, span, parent, kind, start, ended, question, answer, documents)


_Texts = tuple[str | None, str | None, tuple[Document, ...]]


def _openinference(flat: Mapping[str, Any], kind: Kind) -> _Texts:
    documents: dict[int, dict[str, Any]] = {}
    for name, value in flat.items():
        if match := _DOCUMENT.fullmatch(name):
            documents.setdefault(int(match[1]), {})[match[2]] = value
    listed = tuple(
        Document(name_or_none(fields.get("content")), name_or_none(fields.get("id")))
        for _, fields in sorted(documents.items())
    )
    if kind in ("retriever", "reranker"):
        query = flat.get("reranker.query", flat.get("input.value"))
        return question_in(query), None, listed
    asked, returned = flat.get("input.value"), flat.get("output.value")
    asked = asked or _llm_messages(flat, "input") or None
    returned = returned or _llm_messages(flat, "output") or None
    documents_found = documents_among(asked, returned) if kind == "chain" else ()
    return question_in(asked), answer_in(returned), documents_found


_LLM_MESSAGE = re.compile(
    r"llm\.(input|output)_messages\.([0-9]+)\.message\.(role|content)"
    r"(?:s\.[0-9]+\.message_content\.text)?"
)


def _llm_messages(flat: Mapping[str, Any], way: str) -> list[Mapping[str, Any]]:
    """Return the messages that a span of a model alone has, as attributes for each part."""
    listed = parse_nested(flat.get(f"llm.{way}_messages"))
    if isinstance(listed, list):
        return [item.get("message", item) for item in listed if isinstance(item, Mapping)]
    messages: dict[int, dict[str, Any]] = {}
    for name, value in flat.items():
        part = _LLM_MESSAGE.fullmatch(name)
        if part is not None and part[1] == way:
            messages.setdefault(int(part[2]), {})[part[3]] = value
    return [message for _, message in sorted(messages.items())]


def _gen_ai(flat: Mapping[str, Any], kind: Kind) -> _Texts:
    if kind == "retriever":
        documents = documents_in(flat.get("gen_ai.retrieval.documents"))
        return question_in(flat.get("gen_ai.retrieval.query.text")), None, documents
    question = question_in(flat.get("gen_ai.input.messages"))
    return question, answer_in(flat.get("gen_ai.output.messages")), ()


def _flat(attributes: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return attributes under dotted names; the values of ``gen_ai`` keep their structure."""
    flat: dict[str, Any] = {}
    for name, value in attributes.items():
        path = f"{prefix}{name}"
        if path.endswith("documents") and not path.startswith("gen_ai."):
            value = parse_nested(value)
            if isinstance(value, list):
                value = {str(number): item for number, item in enumerate(value)}
        if isinstance(value, Mapping) and not path.startswith(("gen_ai.", "input.", "output.")):
            flat |= _flat(value, f"{path}.")
        else:
            flat[path] = value
    return flat
