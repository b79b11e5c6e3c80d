"""Labels as lists of offsets, checked against their texts; those that overlap are merged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trivet.data.labelled.json_lines import RowError
from trivet.records import ContextSpan, Span


def spans_of(value: object, text: str, what: str) -> tuple[Span, ...] | None:
    """Check ``[[start, end]]`` against its text; ``None`` stays ``None``, empty spans go.

    Raises:
        RowError: The value has another shape, or a span leaves the text.
    """
    if value is None:
        return None
    return tuple(
        Span(start, end)
        for start, end in _numbers(value, 2, what)
        if _inside(start, end, text, what)
    )


def context_spans_of(
    value: object, contexts: Sequence[str], what: str
) -> tuple[ContextSpan, ...] | None:
    """Check ``[[context, start, end]]`` against the contexts, likewise.

    Raises:
        RowError: The value has another shape, names no context, or a span leaves its text.
    """
    if value is None:
        return None
    spans = []
    for context, start, end in _numbers(value, 3, what):
        if not 0 <= context < len(contexts):
            raise RowError(
                f"{what} names a context that is not there",
                f"context {context} of {len(contexts)}, counted from 0",
            )
        if _inside(start, end, contexts[context], what):
            spans.append(ContextSpan(context, start, end))
    return tuple(spans)


def merge_overlapping(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Return spans in order, those that share characters as one; neighbours stay apart."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda one: (one.start, one.end)):
        if merged and span.start < merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return tuple(merged)


def merge_overlapping_contexts(spans: Sequence[ContextSpan]) -> tuple[ContextSpan, ...]:
    """Do the same within each context."""
    return tuple(
        ContextSpan(context, span.start, span.end)
        for context in sorted({span.context for span in spans})
        for span in merge_overlapping(
            [Span(one.start, one.end) for one in spans if one.context == context]
        )
    )


def _numbers(value: object, length: int, what: str) -> Iterator[list[int]]:
    if not isinstance(value, list):
        raise RowError(f"{what} is not a list")
    for item in value:
        if (
            not isinstance(item, list)
            or len(item) != length
            # bool is an int to Python, but no offset.
            or not all(type(number) is int for number in item)
        ):
            raise RowError(f"{what} holds something that is not {length} whole numbers")
        yield item


def _inside(start: int, end: int, text: str, what: str) -> bool:
    if not 0 <= start <= end <= len(text):
        raise RowError(f"{what} leaves its text", f"[{start}, {end}) of {len(text)} characters")
    return start < end
