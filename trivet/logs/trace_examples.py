"""Spans, whichever tool recorded them, and one trace as an example: question, documents, answer.

The order of the spans does not matter. The question is that of the span nearest to the root, else
the query of the first retriever; the answer is that of the span nearest to the root, else of the
last model call. Calls inside a retriever, and models that rewrite its query, do not count.
"""

from __future__ import annotations

import datetime
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from trivet.errors import ExampleError

_SHOWN = 3  # spans that a message names


@dataclass(frozen=True, slots=True)
class TraceExample:
    """The example in a trace."""

    trace: str  # id of the trace
    span: str  # id of its root
    question: str
    documents: tuple[Document, ...]  # different documents, in order; each has a text
    answer: str


def trace_example(spans: Iterable[TraceSpan]) -> TraceExample:
    """Return the example in the spans of one trace; of spans with one id, the last counts.

    Raises:
        ExampleError: It is not a RAG trace (``no_documents``), or spans are missing or not ended
            (``incomplete_trace``).
    """
    by_id = {span.id: span for span in spans}
    ordered = sorted(by_id.values(), key=lambda span: span.start)
    root = _roots(ordered, by_id)[0]
    places = _tree_places(by_id)
    documents = _documents(ordered, places)
    outside = [span for span in ordered if not places[span.id].above]
    chains = [span for span in outside if span.kind == "chain"]
    chains.sort(key=lambda span: places[span.id].depth)
    models = [span for span in outside if span.kind == "llm"]
    searches = [span for span in outside if span.kind in ("retriever", "reranker")]
    top = [span for span in chains if places[span.id].depth == 0]
    question = _first(span.question for span in (*chains, *searches, *models))
    answer = _first(span.answer for span in (*reversed(top), *chains, *reversed(models)))
    if question is None or answer is None:
        lacking = " and no ".join(
            name for name, text in (("question", question), ("answer", answer)) if text is None
        )
        raise ExampleError(
            f"has no {lacking} in its {_described(ordered)}; record inputs and outputs, and "
            "export the whole trace",
            code="incomplete_trace",
        )
    return TraceExample(root.trace, root.id, question, documents, answer)


def _roots(spans: Sequence[TraceSpan], by_id: Mapping[str, TraceSpan]) -> list[TraceSpan]:
    """Return the first spans of a trace; their parent may be a span of another service."""
    roots = [span for span in spans if span.parent is None]
    orphans = [span for span in spans if span.parent is not None and span.parent not in by_id]
    missing = sorted({str(span.parent) for span in orphans})
    if missing and (roots or len(missing) > 1):
        raise ExampleError(
            f"is exported in part: {_count(len(missing), 'span')} missing, such as {missing[0]}; "
            "export the whole trace",
            code="incomplete_trace",
        )
    first = roots or orphans
    if not first:
        raise ExampleError("has no root span: its parents form a cycle", "incomplete_trace")
    if running := [span.id for span in first if not span.ended]:
        raise ExampleError(
            f"has not ended (span {running[0]}); export it again later", code="incomplete_trace"
        )
    return first


class _TreePosition(NamedTuple):
    """Place of a span in the tree of its trace."""

    depth: int
    above: frozenset[str]  # retriever and reranker if it is inside of one
    covered: frozenset[str]  # kinds of the spans around it that have documents


def _tree_places(by_id: Mapping[str, TraceSpan]) -> dict[str, _TreePosition]:
    """Return the place of each span; linear in the spans, however deep they are nested."""
    by_span: dict[str, _TreePosition] = {}
    for name in by_id:
        path: dict[str, None] = {}
        at = name
        while at in by_id and at not in by_span and at not in path:
            path[at] = None
            at = by_id[at].parent or ""
        parent: str | None = at if at in by_span else None
        for below in reversed(path):
            if parent is None:
                by_span[below] = _TreePosition(0, frozenset(), frozenset())
            else:
                span, above = by_id[parent], by_span[parent]
                kind = {span.kind} & {"retriever", "reranker"}
                covered = above.covered | ({span.kind} if span.documents else set())
                by_span[below] = _TreePosition(above.depth + 1, above.above | kind, covered)
            parent = below
    return by_span


def _documents(
    spans: Sequence[TraceSpan], places: Mapping[str, _TreePosition]
) -> tuple[Document, ...]:
    """Return the documents of the outermost rerankers, else retrievers, else chains."""
    for kind in ("reranker", "retriever", "chain"):
        searches = [
            span
            for span in spans
            if span.kind == kind and span.documents and kind not in places[span.id].covered
        ]
        if searches:
            break
    else:
        raise ExampleError(
            f"has no documents in its {_described(spans)}; only traces with a retriever and its "
            "documents can be judged",
            code="no_documents",
        )
    different: dict[str, Document] = {}
    for document in itertools.chain(*(span.documents for span in searches)):
        if document.text is not None:
            different.setdefault(document.text, document)
    if not different:
        raise ExampleError(
            f"names {_count(sum(len(span.documents) for span in searches), 'document')} without "
            "text; "
            "let the instrumentation record contents",
            code="no_documents",
        )
    return tuple(different.values())


def _described(spans: Sequence[TraceSpan]) -> str:
    kinds = Counter(span.kind for span in spans).most_common(_SHOWN)
    return f"{_count(len(spans), 'span')} ({', '.join(f'{kind} {count}' for kind, count in kinds)})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _first(texts: Iterable[str | None]) -> str | None:
    return next((text for text in texts if text), None)


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
