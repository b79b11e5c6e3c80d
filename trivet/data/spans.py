"""Character spans: alignment with tokens, differences and prefixes.

Offsets count characters (Unicode code points) of the caller's own text. Differences and prefixes
have no white space at their ends: it would mark wrong tokens, as one may begin with it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from trivet.data.tokenization import BoolArray, IntArray
from trivet.records import Span


def mark_tokens(offsets: IntArray, spans: Iterable[Span]) -> BoolArray:
    """Mark the tokens that share a character with a span. *Shape:* offsets [T, 2], marks [T]."""
    marks = np.zeros(len(offsets), dtype=np.bool_)
    for span in spans:
        if span.start < span.end:  # an empty span inside a token shares no character with it
            marks |= (offsets[:, 0] < span.end) & (offsets[:, 1] > span.start)
    return marks


def subtract_spans(text: str, spans: Iterable[Span], removed: Iterable[Span]) -> tuple[Span, ...]:
    """Return the characters of ``spans`` that are not in ``removed``, as trimmed spans."""
    marks = np.zeros(len(text) + 2, dtype=np.bool_)
    for span in spans:
        marks[span.start + 1 : span.end + 1] = True
    for span in removed:
        marks[span.start + 1 : span.end + 1] = False
    edges = np.flatnonzero(marks[1:] != marks[:-1]).tolist()
    found = []
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        piece = text[start:end]
        if words := piece.strip():
            begin = start + len(piece) - len(piece.lstrip())
            found.append(Span(begin, begin + len(words)))
    return tuple(found)


def clip_spans(prefix: str, spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return the parts of the spans within a prefix of their text that are not blank."""
    clipped = (Span(min(s.start, len(prefix)), min(s.end, len(prefix))) for s in spans)
    return tuple(span for span in clipped if prefix[span.start : span.end].strip())
