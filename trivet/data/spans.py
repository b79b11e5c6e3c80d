"""Alignment of character spans with tokens.

Offsets count characters (Unicode code points) of the caller's own text.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from trivet.data.tokenization import BoolArray, IntArray
from trivet.records import Span


def mark_tokens(offsets: IntArray, spans: Iterable[Span]) -> BoolArray:
    """Mark the tokens that share at least one character with a span.

    Args:
        offsets: Characters of each token, in order. *Shape:* [T, 2].
        spans: Any order; they may overlap.

    Returns:
        *Shape:* [T].
    """
    marks = np.zeros(len(offsets), dtype=np.bool_)
    for span in spans:
        if span.start < span.end:  # an empty span inside a token shares no character with it
            marks |= (offsets[:, 0] < span.end) & (offsets[:, 1] > span.start)
    return marks
