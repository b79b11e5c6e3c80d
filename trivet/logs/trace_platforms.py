"""Observations and traces exported from Langfuse, and runs exported from LangSmith.

Langfuse's are rows of a table, or one trace with its parts; LangSmith's are of its bulk export, or
of its API and SDK.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trivet.logs.trace_examples import KINDS, TraceSpan, name_or_none, seconds
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
    said: str, ids: tuple[Any, Any], parent: Any, start: Any, ended: bool, texts: tuple[Any, ...]
) -> TraceSpan:
    """Return a span of a kind as the tool names it; ``texts`` are input, output and metadata."""
    kind = KINDS.get(said.lower(), "other")
    given, returned = texts[:2]
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
        question=question_in(given) if is_search or is_model else None,
        answer=answer_in(returned) if is_model else None,
        documents=documents_in(returned) if is_search else among,
    )
