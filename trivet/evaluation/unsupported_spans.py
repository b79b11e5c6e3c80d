"""Unsupported spans of a response: weak words, and values that the sources do not have.

Categories and subcategories are those of LettuceDetect's taxonomy (arXiv 2607.00895).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from trivet.data.sentence_features import QUESTION
from trivet.data.spans import subtract_spans
from trivet.data.tokenization import FloatArray, IntArray, TokenizedExample
from trivet.data.values import Amount, Value, ValueKind, find_values
from trivet.data.windows import Layout
from trivet.data.written_forms import blank_markup
from trivet.evaluation.preprocessing import PreprocessedExample
from trivet.records import (
    ContextSpan,
    SentenceVerdict,
    Span,
    SpanCategory,
    SpanSubcategory,
    UnsupportedSpan,
)

_JOINERS = "\u200c\u200d"  # between letters of one word, and between the parts of one emoji
_SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
_CLOSING = frozenset(".,;:!?)")  # punctuation that closes words and therefore begins no span
_Sort = tuple[ValueKind, str, frozenset[str]]
_Same = tuple[Amount | None, tuple[str, ...]]
_SUBCATEGORIES: dict[ValueKind, SpanSubcategory] = {
    "number": "numerical",
    "time": "temporal",
    "quantity": "value",
    "name": "entity",
}


def find_unsupported(
    preprocessed: PreprocessedExample,
    support: FloatArray,
    sentences: Sequence[SentenceVerdict],
    threshold: float,
) -> tuple[UnsupportedSpan, ...]:
    """Return the spans of each unsupported sentence.

    These are the values that its sources do not have and its weakest words, or all of it. Words
    whose support [R, or more] is below the threshold are weak; the verdicts are those on the
    sentences that have a token.
    """
    tokens, layout = preprocessed.tokens, preprocessed.layout
    response = preprocessed.example.response
    places: _ContextValues | None = None
    found: list[UnsupportedSpan] = []
    numbers = np.flatnonzero(np.bincount(tokens.response_sentence))
    for number, sentence in zip(numbers.tolist(), sentences, strict=True):
        if sentence.supported is not False or sentence.support is None:
            continue
        text, probability = sentence.text, 1 - sentence.support
        values: tuple[UnsupportedSpan, ...] = ()
        if any(value.status != "near" for value in layout.values[number]):
            places = places or _ContextValues(tokens)
            values = mark_values(tokens, layout, places, number, probability)
        inside = np.flatnonzero(tokens.response_sentence == number)
        # Some tokens begin at the space before their word, which is before the sentence.
        offsets = np.clip(tokens.response.offsets[inside] - sentence.start, 0, len(text))
        weak = unsupported_spans(text, offsets, support[inside], threshold)
        if not weak and not values:
            weak = (UnsupportedSpan(0, len(text), text, probability),)
        moved = [
            replace(span, start=sentence.start + span.start, end=sentence.start + span.end)
            for span in weak
        ]
        beside = _beside(moved, values, response) if values else moved
        found += sorted([*values, *beside], key=attrgetter("start"))
    return tuple(found)


def _beside(
    spans: Iterable[UnsupportedSpan], values: Sequence[UnsupportedSpan], response: str
) -> Iterator[UnsupportedSpan]:
    """Yield the parts of spans that no value covers; marks and single characters are left out."""
    covered = [Span(value.start, value.end) for value in values]
    for span in spans:
        for part in subtract_spans(response, [Span(span.start, span.end)], covered):
            text = response[part.start : part.end]
            if sum(map(str.isalnum, blank_markup(text))) >= 2:
                yield replace(span, start=part.start, end=part.end, text=text)


def mark_values(
    tokens: TokenizedExample,
    layout: Layout,
    places: _ContextValues,
    number: int,
    probability: float,
) -> tuple[UnsupportedSpan, ...]:
    """Return a span for each value of a response sentence that its sources do not have.

    ``probability`` is that of the sentence to be unsupported.
    """
    response, start = tokens.example.response, tokens.response_sentence_spans[number].start
    near = layout.sources[number].tolist()
    spans = []
    for found in layout.values[number]:
        if found.status == "near":
            continue
        first, last = start + found.value.span.start, start + found.value.span.end
        elsewhere = found.status == "elsewhere"
        at = next((one for one in found.sentences if one != QUESTION), None) if elsewhere else None
        instead = places.alike(near, found.value)
        category: SpanCategory = "unsupported_addition"
        if elsewhere or (instead is not None and found.value.kind != "name"):
            category = "contradiction"
        elif found.value.kind == "name":
            category = "fabricated_reference"
        spans.append(
            UnsupportedSpan(
                start=first,
                end=last,
                text=response[first:last],
                probability=probability,
                reason="value_of_another_passage" if elsewhere else "value_not_in_contexts",
                category=category,
                subcategory=_SUBCATEGORIES[found.value.kind],
                found_at=None if at is None else places.equal(at, found.value),
                instead=instead,
            )
        )
    return tuple(spans)


class _ContextValues:
    """Values of the context sentences of an example; each sentence is read once."""

    def __init__(self, tokens: TokenizedExample) -> None:
        self._spans, self._contexts = tokens.context_sentence_spans, tokens.example.contexts
        # of each sentence that was read: the first value of each sort, and of those that are equal
        self._read: dict[int, tuple[dict[_Sort, ContextSpan], dict[_Same, ContextSpan]]] = {}

    def _values(self, number: int) -> tuple[dict[_Sort, ContextSpan], dict[_Same, ContextSpan]]:
        if number not in self._read:
            sorts, equal = self._read[number] = ({}, {})
            place = self._spans[number]
            text = self._contexts[place.context][place.start : place.end]
            for value in find_values(text):
                first, last = place.start + value.span.start, place.start + value.span.end
                at = ContextSpan(place.context, first, last)
                sorts.setdefault(_sort(value), at)
                equal.setdefault((value.amount, value.parts), at)
        return self._read[number]

    def alike(self, numbers: Sequence[int], wanted: Value) -> ContextSpan | None:
        """Return the first value of some sentences that could be confused with one they lack."""
        kind, dimension, units = _sort(wanted)
        for number in numbers:
            sorts, _ = self._values(number)
            places = [
                place
                for other, place in sorts.items()
                if other[:2] == (kind, dimension) and other[2] >= units
            ]
            if places:
                return min(places, key=attrgetter("start"))
        return None

    def equal(self, number: int, wanted: Value) -> ContextSpan:
        """Return the place of an equal value in a sentence, or that of the sentence."""
        _, equal = self._values(number)
        return equal.get((wanted.amount, wanted.parts), self._spans[number])


def _sort(value: Value) -> _Sort:
    """Return kind, dimension and units of time: values can be confused with those of their sort."""
    dimension = value.amount.dimension if value.amount is not None else ""
    units = (part.partition(" ")[0] for part in value.parts) if value.kind == "time" else ()
    return value.kind, dimension, frozenset(units)


def unsupported_spans(
    text: str, offsets: IntArray, support_probs: npt.NDArray[np.floating], threshold: float
) -> tuple[UnsupportedSpan, ...]:
    """Turn the support probabilities [R] of tokens at ``offsets`` [R, 2] into unsupported spans.

    Runs of tokens below the threshold are merged and extended to whole words. Spans that contain
    only punctuation or a single character are dropped.
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
