"""Texts cut at the offsets of a verdict: what each piece is, nothing escaped yet.

The pieces of a text, put together, are the text: every cut is made before anything is escaped.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from trivet.records import ContextSentence, SentenceVerdict, UnsupportedSpan
from trivet.report.verdict_texts import Placed

PartT = TypeVar("PartT", bound=Placed)


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a response.

    Attributes:
        text: As it stands there.
        probability: Of the unsupported span that it lies in; ``None`` outside of any.
        ends: Whether that span ends here.
    """

    text: str
    probability: float | None
    ends: bool


@dataclass(frozen=True, slots=True)
class Stretch:
    """A sentence of a response, or what stands between two; then ``verdict`` is ``None``."""

    pieces: tuple[Piece, ...]
    verdict: SentenceVerdict | None


@dataclass(frozen=True, slots=True)
class ContextPiece:
    """A sentence of a context, or what stands between two; then ``verdict`` is ``None``."""

    text: str
    verdict: ContextSentence | None


def cut_response(
    text: str, sentences: Sequence[SentenceVerdict], unsupported: Sequence[UnsupportedSpan]
) -> list[Stretch]:
    """Cut a response into its sentences, and these where an unsupported span begins or ends.

    Args:
        text: The response.
        sentences: In order; one that overlaps an earlier one yields to it.
        unsupported: Likewise. Both may reach past the text, which ends them.
    """
    return [
        Stretch(tuple(_pieces(text, begin, end, unsupported)), sentence)
        for begin, end, sentence in _walk(0, len(text), sentences)
    ]


def cut_context(text: str, sentences: Sequence[ContextSentence]) -> list[ContextPiece]:
    """Cut a context into its sentences and what stands between them."""
    return [
        ContextPiece(text[begin:end], sentence)
        for begin, end, sentence in _walk(0, len(text), sentences)
    ]


def _pieces(
    text: str, begin: int, end: int, unsupported: Sequence[UnsupportedSpan]
) -> Iterator[Piece]:
    # Spans that end before the sentence begins are passed over without looking at each.
    near = bisect_right(unsupported, begin, key=lambda span: span.end)
    for start, stop, span in _walk(begin, end, islice(unsupported, near, None)):
        if span is None:
            yield Piece(text[start:stop], None, False)
        else:
            yield Piece(text[start:stop], span.probability, stop == min(span.end, len(text)))


def _walk(begin: int, end: int, parts: Iterable[PartT]) -> Iterator[tuple[int, int, PartT | None]]:
    """Yield what lies in each part and between two, from ``begin`` to ``end`` without a gap."""
    for part in parts:
        if part.start >= end:
            break
        start, stop = max(part.start, begin), min(part.end, end)
        if start >= stop:
            continue
        if start > begin:
            yield begin, start, None
        yield start, stop, part
        begin = stop
    if begin < end:
        yield begin, end, None
