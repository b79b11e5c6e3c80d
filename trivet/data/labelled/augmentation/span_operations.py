"""Stretches of a text: unions, differences and prefixes of spans, free of blanks at their ends.

Torch-free. A blank end must not stay: a token may begin with the white space before its word.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from trivet.records import Span


def stretches(text: str, spans: Iterable[Span], but: Iterable[Span] = ()) -> tuple[Span, ...]:
    """Return the characters of ``spans`` that are not in ``but``, without white space around."""
    marks = np.zeros(len(text) + 2, dtype=np.bool_)
    for span in spans:
        marks[span.start + 1 : span.end + 1] = True
    for span in but:
        marks[span.start + 1 : span.end + 1] = False
    edges = np.flatnonzero(marks[1:] != marks[:-1]).tolist()
    found = []
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        piece = text[start:end]
        if words := piece.strip():
            begin = start + len(piece) - len(piece.lstrip())
            found.append(Span(begin, begin + len(words)))
    return tuple(found)


def clip(prefix: str, spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return what of the spans lies in the beginning of their text and is not blank there."""
    clipped = (Span(min(s.start, len(prefix)), min(s.end, len(prefix))) for s in spans)
    return tuple(span for span in clipped if prefix[span.start : span.end].strip())
