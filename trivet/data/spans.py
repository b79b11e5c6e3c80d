"""Character spans: alignment with tokens, differences, clauses and what is copied.

Offsets count characters (Unicode code points) of the caller's own text. Differences and prefixes
have no white space at their ends: it would mark wrong tokens, as one may begin with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import groupby

import numpy as np

from trivet.data.tokenization import BoolArray, IntArray
from trivet.records import Span

_CLAUSE = re.compile(
    r"[,;:](?=\s)|[()—]|\s[-–]\s|\s(?=(?:and|or|as|but|because|since|while|whereas|although|though"
    r"|so|then)\s)"
)
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_LONGEST = 100  # words of texts that are compared, since the time can grow with their square
# Such words alone do not make a difference.
_GLUE = re.compile(r"(?i:an?|the|of|in|on|at|to|for|by|and|or|as|is|are|was|were|be|its?|that)")


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
    remaining = []
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        piece = text[start:end]
        if words := piece.strip():
            begin = start + len(piece) - len(piece.lstrip())
            remaining.append(Span(begin, begin + len(words)))
    return tuple(remaining)


def clause_cuts(text: str) -> list[int]:
    """Return where the clauses of a sentence and the items of its lists begin, and its end.

    The mark before a clause belongs to the one before it.
    """
    cuts = [0]
    for cut in [*(match.end() for match in _CLAUSE.finditer(text)), len(text)]:
        if any(map(str.isalnum, text[cuts[-1] : cut])):
            cuts.append(cut)
    return [*cuts[: max(1, len(cuts) - 1)], len(text)]


def copied_spans(text: str, source: str, least: float) -> list[Span]:
    """Return what a sentence has from a source in the same order; nothing below a share of words.

    Words are equal if their first six letters are.
    """
    words, others = [*_WORD.finditer(text)], _WORD.findall(source)
    if not 0 < len(words) <= _LONGEST >= len(others):
        return []
    keys = [word[0].casefold()[:6] for word in words]
    known = [other.casefold()[:6] for other in others]
    copied = np.zeros(len(words), dtype=np.bool_)
    for block in SequenceMatcher(None, keys, known, autojunk=False).get_matching_blocks():
        copied[block.a : block.a + block.size] = True
    if copied.mean() < least:
        return []
    runs = [[*run] for _, run in groupby(range(len(words)), copied.__getitem__)]
    return [
        Span(words[run[0]].start(), words[run[-1]].end())
        for run in runs
        if copied[run[0]] or all(_GLUE.fullmatch(words[at][0]) for at in run)
    ]
