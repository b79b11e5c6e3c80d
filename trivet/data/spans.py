"""Alignment of character spans with tokens, in both directions. The only file that does this.

Does not import torch. Offsets count characters (Unicode code points) of the caller's own text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from trivet.data.segment_tokenizer import BoolArray, IntArray
from trivet.records import Span, UnsupportedSpan

_JOINERS = "\u200c\u200d"  # between letters of one word, and between the parts of one emoji
_SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
_CLOSING = frozenset(".,;:!?)")  # punctuation that closes words and therefore begins no span


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


def unsupported_spans(
    text: str, offsets: IntArray, support_probs: npt.NDArray[np.floating], threshold: float
) -> tuple[UnsupportedSpan, ...]:
    """Turn token probabilities into unsupported spans.

    Runs of tokens below the threshold are merged and extended to whole words. Spans that contain
    only punctuation or a single character are dropped.

    Args:
        text: The response.
        offsets: Characters of each token. *Shape:* [R, 2].
        support_probs: Support probability of each token. *Shape:* [R].
        threshold: Probability below which a token is unsupported.
    """
    below = np.concatenate([[False], support_probs < threshold, [False]])
    edges = np.flatnonzero(below[1:] != below[:-1])
    words: list[tuple[int, int]] = []
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        start, end = int(offsets[first, 0]), int(offsets[last - 1, 1])
        reached = words[-1][1] if words else 0
        if words and end <= reached:
            continue
        # Stop at the previous span: searching one long word again and again takes quadratic time.
        start, end = _whole_words(text, start, end, reached)
        if words and start <= words[-1][1]:
            before = words.pop()
            start, end = before[0], max(before[1], end)
        words.append((start, end))
    spans = []
    # The tokens of a span are consecutive, so its mean is a difference of cumulative sums.
    total = np.concatenate([[0.0], np.cumsum(1.0 - support_probs.astype(np.float64))])
    for start, end in words:
        if sum(map(str.isalnum, text[start:end])) < 2:
            continue
        first = int(np.searchsorted(offsets[:, 1], start, side="right"))
        last = int(np.searchsorted(offsets[:, 0], end, side="left"))
        mean = (total[last] - total[first]) / max(1, last - first)
        probability = float(np.clip(mean, 0.0, 1.0))
        spans.append(UnsupportedSpan(start, end, text[start:end], probability))
    return tuple(spans)


def _whole_words(text: str, start: int, end: int, reached: int) -> tuple[int, int]:
    """Extend a range of characters to whole words, to the left no further than ``reached``."""
    while start < end and (text[start].isspace() or text[start] in _CLOSING):
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start == end:
        return start, end
    while start > reached and _joined(text[start - 1], text[start]):
        start -= 1
    while end < len(text) and _joined(text[end - 1], text[end]):
        end += 1
    return start, end


def _joined(left: str, right: str) -> bool:
    """Tell whether two neighbouring characters belong to one word."""
    if _is_mark(right) or right in _JOINERS or left in _JOINERS:
        return True  # an accent or a joined emoji stays with its base character
    return _in_word(left) and _in_word(right)


def _in_word(character: str) -> bool:
    # Scripts written without spaces (wide characters) have no word boundaries to extend to.
    in_word = character.isalnum() or _is_mark(character)
    return in_word and unicodedata.east_asian_width(character) not in ("W", "F")


def _is_mark(character: str) -> bool:
    # ``combining`` misses the vowel signs of Indic scripts and variation selectors.
    return unicodedata.category(character).startswith("M") or character in _SKIN_TONES
