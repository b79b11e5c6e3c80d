"""Observations and traces exported from Langfuse: rows of a table, or one trace with its parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trivet.data.traces.spans import KINDS, TraceSpan, name_or_none, seconds
from trivet.data.traces.texts import answer_in, documents_among, documents_in, question_in


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
    elif "observations" in record:
        for row in record["observations"]:
            yield _observation({"trace_id": record["id"], **row})
    else:
        yield _observation(record)


def _observation(row: Mapping[str, Any]) -> TraceSpan:
    kind = KINDS.get(str(row["type"]).lower(), "other")
    given, returned = row.get("input"), row.get("output")
    is_search = kind in ("retriever", "reranker")
    is_model = kind in ("chain", "llm")
    return TraceSpan(
        trace=str(row["traceId"] if "traceId" in row else row["trace_id"]),
        id=str(row["id"]),
        parent=name_or_none(row.get("parentObservationId") or row.get("parent_observation_id")),
        kind=kind,
        start=seconds(row.get("startTime") or row.get("start_time")),
        ended=bool(row.get("endTime") or row.get("end_time")) or row["type"] == "EVENT",
        question=question_in(given) if is_search or is_model else None,
        answer=answer_in(returned) if is_model else None,
        documents=documents_in(returned)
        if is_search
        else documents_among(given, returned, row.get("metadata"))
        if kind == "chain"
        else (),
    )
