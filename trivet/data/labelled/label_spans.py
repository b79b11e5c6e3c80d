"""Labels given as lists of offsets: checked against their texts, and merged if they overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trivet.data.labelled.source_report import RowError
from trivet.records import ContextSpan, Span


def spans_of(value: object, text: str, what: str) -> tuple[Span, ...] | None:
    """Check ``[[start, end]]`` against its text; ``None`` stays, empty spans are left out."""
    if value is None:
        return None
    return tuple(Span(start, end) for _, start, end in _checked(value, [text], what, 2))


def context_spans_of(
    value: object, contexts: Sequence[str], what: str
) -> tuple[ContextSpan, ...] | None:
    """Check ``[[context, start, end]]`` against the contexts; otherwise as ``spans_of``."""
    if value is None:
        return None
    return tuple(ContextSpan(*numbers) for numbers in _checked(value, contexts, what, 3))


def merge_overlapping(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Sort spans and merge those that share characters; adjacent spans stay separate."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda one: (one.start, one.end)):
        if merged and span.start < merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return tuple(merged)


def merge_overlapping_contexts(spans: Sequence[ContextSpan]) -> tuple[ContextSpan, ...]:
    """Sort and merge the spans of each context."""
    merged: list[ContextSpan] = []
    for context in sorted({span.context for span in spans}):
        own = [Span(one.start, one.end) for one in spans if one.context == context]
        merged += [ContextSpan(context, one.start, one.end) for one in merge_overlapping(own)]
    return tuple(merged)


def _checked(
    value: object, texts: Sequence[str], what: str, length: int
) -> Iterator[tuple[int, int, int]]:
    """Yield context, start and end of the spans that are not empty; others raise ``RowError``."""
    if not isinstance(value, list):
        raise RowError(f"{what} is not a list")
    for item in value:
        # A bool is an int in Python, but not an offset.
        whole = isinstance(item, list) and all(type(number) is int for number in item)
        if not whole or len(item) != length:
            raise RowError(f"{what} holds something that is not {length} whole numbers")
        context, start, end = item if length == 3 else (0, *item)
        if not 0 <= context < len(texts):
            place = f"context {context} of {len(texts)}, counted from 0"
            raise RowError(f"{what} names a context that is not there", place)
        size = len(texts[context])
        if not 0 <= start <= end <= size:
            raise RowError(f"{what} leaves its text", f"[{start}, {end}) of {size} characters")
        if start < end:
            yield context, start, end
