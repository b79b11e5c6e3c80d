"""Runs exported from LangSmith: of its bulk export, or of its API and SDK."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trivet.data.traces.spans import KINDS, TraceSpan, name_or_none, seconds
from trivet.data.traces.texts import answer_in, documents_among, documents_in, question_in


def read_langsmith(record: Mapping[str, Any]) -> Iterator[TraceSpan]:
    """Yield the runs of a record; ``KeyError`` or ``TypeError`` if it holds none."""
    if isinstance(record.get("runs"), list):  # an answer of the API
        for run in record["runs"]:
            yield from read_langsmith(run)
        return
    kind = KINDS.get(str(record["run_type"]).lower(), "other")
    given, returned = record.get("inputs"), record.get("outputs")
    is_search = kind == "retriever"
    is_model = kind in ("chain", "llm")
    yield TraceSpan(
        trace=str(record["trace_id"]),
        id=str(record["id"]),
        parent=name_or_none(record.get("parent_run_id")),
        kind=kind,
        start=seconds(record.get("start_time")),
        ended=record.get("end_time") not in (None, ""),
        question=question_in(given) if is_search or is_model else None,
        answer=answer_in(returned) if is_model else None,
        documents=documents_in(returned)
        if is_search
        else documents_among(given, returned)
        if kind == "chain"
        else (),
    )
    for child in record.get("child_runs") or ():
        yield from read_langsmith(child)
