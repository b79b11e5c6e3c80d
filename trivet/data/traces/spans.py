"""Spans, whichever tool recorded them: the one table that examples are made from."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Kind = Literal["chain", "retriever", "reranker", "llm", "other"]
"""Work of a span; chains and agents are ``chain``, tools and embeddings ``other``."""

TraceFormat = Literal["otel", "openinference", "phoenix", "langfuse", "langsmith"]


@dataclass(frozen=True, slots=True)
class Document:
    """A retrieved document."""

    text: str | None  # its text; None if only its name was recorded
    id: str | None = None  # its name in the index, if it was recorded


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """One span."""

    trace: str  # id of its trace
    id: str  # id of the span
    parent: str | None  # id of the span that it is part of; None for the first span of a trace
    kind: Kind  # kind of its work
    start: float = 0.0  # beginning as a number; spans are put in order by it
    ended: bool = True  # whether it has ended
    question: str | None = None  # text of its input: a question, or the query of a retriever
    answer: str | None = None  # text of its output
    documents: tuple[Document, ...] = ()  # documents that it returned, in order


ReadSpans: TypeAlias = Callable[[Mapping[str, Any]], Iterator[TraceSpan]]
"""Reader of the spans in one record of an export."""

KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("chain", "agent", "workflow", "span"), "chain"),
    **dict.fromkeys(("retriever", "retrieval"), "retriever"),
    **dict.fromkeys(("reranker", "rerank"), "reranker"),
    **dict.fromkeys(("llm", "generation", "chat", "text_completion", "generate_content"), "llm"),
    **dict.fromkeys(("invoke_agent", "invoke_workflow"), "chain"),
}
"""Kinds by the tools' own names, in lower case; any other name is ``other``."""


def seconds(moment: object) -> float:
    """Return a moment as a number: ISO 8601 and dates as seconds since 1970; 0 if unknown."""
    if isinstance(moment, int | float):
        return float(moment)
    if isinstance(moment, str):
        try:
            moment = datetime.datetime.fromisoformat(moment)
        except ValueError:
            return 0.0
    if not isinstance(moment, datetime.datetime):
        return 0.0
    return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()


def name_or_none(value: object) -> str | None:
    """Return an id as text; empty and missing ones are ``None``."""
    return str(value) if value not in (None, "") else None
