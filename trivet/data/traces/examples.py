"""One trace as an example: its question, the documents it retrieved and its answer.

The order of the spans does not matter. The question is that of the span nearest to the root, else
the query of the first retriever; the answer is that of the span nearest to the root, else of the
last model call. What a retriever calls inside, and models that rewrite its query, do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trivet.data.traces.spans import Document, TraceSpan
from trivet.records import ExampleError

_SHOWN = 3  # spans that a message names


@dataclass(frozen=True, slots=True)
class TraceExample:
    """The example in a trace.

    Attributes:
        trace: Id of the trace.
        span: Id of its root.
        start: Beginning of its root, in seconds since 1970; 0 if unknown.
        question: Question.
        documents: Different documents, in order; each has a text.
        places: Span of each document and its position there, from 0.
        answer: Answer.
    """

    trace: str
    span: str
    start: float
    question: str
    documents: tuple[Document, ...]
    places: tuple[tuple[str, int], ...]
    answer: str


def trace_example(spans: Iterable[TraceSpan]) -> TraceExample:
    """Return the example in the spans of one trace; of spans with one id, the last counts.

    Raises:
        ExampleError: It is no RAG trace (``no_documents``), or spans are missing or not ended
            (``incomplete_trace``).
    """
    by_id = {span.id: span for span in spans}
    ordered = sorted(by_id.values(), key=lambda span: span.start)
    roots = _roots(ordered, by_id)
    ancestors = {span.id: list(_ancestors(span, by_id)) for span in ordered}
    documents, places = _documents(ordered, ancestors)
    inside = {
        span.id
        for span in ordered
        if any(above.kind in ("retriever", "reranker") for above in ancestors[span.id])
    }
    outside = [span for span in ordered if span.id not in inside]
    chains = sorted(
        (span for span in outside if span.kind == "chain"), key=lambda s: len(ancestors[s.id])
    )
    models = [span for span in outside if span.kind == "llm"]
    retrievers = [span for span in outside if span.kind in ("retriever", "reranker")]
    question = _first(span.question for span in (*chains, *retrievers, *models))
    top = [span for span in chains if len(ancestors[span.id]) == len(ancestors[roots[0].id])]
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
    root = roots[0]
    return TraceExample(root.trace, root.id, root.start, question, documents, places, answer)


def _roots(spans: Sequence[TraceSpan], by_id: dict[str, TraceSpan]) -> list[TraceSpan]:
    """Return the first spans of a trace; the parent of a single one may be another service's."""
    roots = [span for span in spans if span.parent is None]
    orphans = [span for span in spans if span.parent is not None and span.parent not in by_id]
    if orphans and (roots or len(orphans) > 1):
        missing = sorted({str(span.parent) for span in orphans})
        raise ExampleError(
            f"is exported in part: {len(missing)} spans are missing, such as {missing[0]}; "
            "export the whole trace",
            code="incomplete_trace",
        )
    found = roots or orphans
    if not found:
        raise ExampleError("has no root: its spans are parts of each other", "incomplete_trace")
    if running := [span.id for span in found if not span.ended]:
        raise ExampleError(
            f"has not ended (span {running[0]}); export it again later", code="incomplete_trace"
        )
    return found


def _ancestors(span: TraceSpan, by_id: dict[str, TraceSpan]) -> Iterator[TraceSpan]:
    seen = {span.id}
    while (parent := by_id.get(span.parent or "")) is not None and parent.id not in seen:
        seen.add(parent.id)
        yield parent
        span = parent


def _documents(
    spans: Sequence[TraceSpan], ancestors: dict[str, list[TraceSpan]]
) -> tuple[tuple[Document, ...], tuple[tuple[str, int], ...]]:
    """Return the documents of the outermost rerankers, else of the outermost retrievers."""
    for kind in ("reranker", "retriever"):
        found = [span for span in spans if span.kind == kind and span.documents]
        ids = {span.id for span in found}
        found = [s for s in found if not any(above.id in ids for above in ancestors[s.id])]
        if found:
            break
    else:
        raise ExampleError(
            f"has no documents in its {_described(spans)}; only traces with a retriever and its "
            "documents can be judged",
            code="no_documents",
        )
    different: dict[str, tuple[Document, tuple[str, int]]] = {}
    for span in found:
        for position, document in enumerate(span.documents):
            if document.text is not None:
                different.setdefault(document.text, (document, (span.id, position)))
    if not different:
        raise ExampleError(
            f"names {sum(len(span.documents) for span in found)} documents without their texts; "
            "let the instrumentation record contents",
            code="no_documents",
        )
    pairs = list(different.values())
    return tuple(document for document, _ in pairs), tuple(place for _, place in pairs)


def _described(spans: Sequence[TraceSpan]) -> str:
    kinds = Counter(span.kind for span in spans).most_common(_SHOWN)
    return f"{len(spans)} spans ({', '.join(f'{kind} {count}' for kind, count in kinds)})"


def _first(texts: Iterable[str | None]) -> str | None:
    return next((text for text in texts if text), None)
