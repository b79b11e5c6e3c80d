"""Unsupported spans of a response: values that the sources do not have, and weak words."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from trivet.bundle.info import Thresholds
from trivet.data.sentence_features import FEATURES, NEAR_SENTENCES, QUESTION
from trivet.data.spans import clause_cuts, copied_spans, mark_tokens, subtract_spans
from trivet.data.tokenization import FloatArray, IntArray
from trivet.data.values import VALUE_KINDS
from trivet.data.written_forms import blank_markup
from trivet.evaluation.preprocessing import PreprocessedExample
from trivet.evaluation.value_marks import PlacedValues, mark_values
from trivet.model.aggregate import logits_of, weigh_sentences
from trivet.model.architecture import SentenceLayer
from trivet.records import MarkedSpan, SentenceVerdict, Span

_JOINERS = "\u200c\u200d"  # between letters of one word, and between the parts of one emoji
_SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
_CLOSING = ".,;:!?)"  # punctuation that closes words and therefore begins no span
_COPIED = 0.4  # share of a sentence's words by which only its other words are marked
_STRONGER = 1.0  # logits of support by which a clause is stronger than the weakest one
_VALUE_FEATURES = [
    column for column, name in enumerate(FEATURES) if name.partition("_")[0] in VALUE_KINDS
]


class SentenceMarks:
    """Marks in the sentences of one response; each context sentence is read once."""

    def __init__(
        self,
        preprocessed: PreprocessedExample,
        support: FloatArray,
        thresholds: Thresholds,
        layer: SentenceLayer,
    ) -> None:
        """Take an example with the support of its response tokens [R, or more]."""
        tokens = preprocessed.tokens
        self.example = preprocessed
        # numbers of the sentences that have a token, as verdicts are on
        self.numbers: list[int] = np.flatnonzero(np.bincount(tokens.response_sentence)).tolist()
        self._support = support[: len(tokens.response)]
        self._thresholds, self._layer = thresholds, layer
        self._places = PlacedValues(preprocessed)

    def values(self, number: int, sentence: SentenceVerdict) -> list[MarkedSpan]:
        """Return a span for each value of a sentence that its sources do not have."""
        if all(value.status == "near" for value in self.example.layout.values[number]):
            return []
        return list(mark_values(self.example, self._places, number, sentence))

    def far_values(self, number: int, sentence: SentenceVerdict) -> list[MarkedSpan]:
        """Return the spans of ``values`` but of those that a passage with a source has."""
        layout, spans = self.example.layout, self.example.tokens.context_sentence_spans
        near = {spans[source].context for source in layout.sources[number][:NEAR_SENTENCES]}
        missing = [value for value in layout.values[number] if value.status != "near"]
        return [
            span
            for span, value in zip(self.values(number, sentence), missing, strict=True)
            if value.status == "nowhere"
            or (
                # Nothing is known of its place in a stream; a value of the question is not a fault.
                value.sentences
                and QUESTION not in value.sentences
                and near.isdisjoint(spans[number].context for number in value.sentences)
            )
        ]

    def unsupported(self, sentences: Sequence[SentenceVerdict]) -> tuple[MarkedSpan, ...]:
        """Return the spans of each unsupported sentence, given the verdicts.

        These are the values that its sources do not have. The rest is marked where it is
        unsupported by itself: its weakest words, or all of it.
        """
        spans: list[MarkedSpan] = []
        for number, sentence in zip(self.numbers, sentences, strict=True):
            if sentence.supported is False:
                values = self.values(number, sentence)
                rest = self._rest(number, sentence, values)
                spans += sorted([*values, *rest], key=attrgetter("start"))
        return tuple(spans)

    def _rest(
        self, number: int, sentence: SentenceVerdict, values: Sequence[MarkedSpan]
    ) -> list[MarkedSpan]:
        """Return the spans beside some values of an unsupported sentence.

        Clauses that are clearly stronger than the weakest one are spared, and what a sentence that
        has much from its source has from it.
        """
        tokens, text = self.example.tokens, sentence.text
        inside = np.flatnonzero(tokens.response_sentence == number)
        support = self._support[inside]
        # Some tokens begin at the space before their word, which is before the sentence.
        places = np.clip(tokens.response.offsets[inside] - sentence.start, 0, len(text))
        covered = [Span(v.start - sentence.start, v.end - sentence.start) for v in values]
        if values:
            others = support[~mark_tokens(places, covered)]
            if self._support_without_values(number, others) >= self._thresholds.sentence:
                return []
        weak = unsupported_spans(text, places, support, self._thresholds.span)
        if not weak and not values and sentence.support is not None:
            weak = (MarkedSpan(0, len(text), text, 1 - sentence.support),)
        spared = [*_stronger_clauses(text, places, support), *self._copied(number, text)]
        rest = _beside(weak, covered + spared, text)
        return [
            replace(span, start=sentence.start + span.start, end=sentence.start + span.end)
            for span in (rest if rest or values else weak)
        ]

    def _copied(self, number: int, text: str) -> list[Span]:
        """Return what a sentence has from its first source and its values, if that is much."""
        layout, tokens = self.example.layout, self.example.tokens
        for first in layout.sources[number][:1]:
            source = tokens.context_sentence_spans[first]
            context = tokens.example.contexts[source.context][source.start : source.end]
            if copied := copied_spans(text, context, _COPIED):
                near = (v.value.span for v in layout.values[number] if v.status == "near")
                return [*copied, *near]
        return []

    def _support_without_values(self, number: int, support: FloatArray) -> float:
        """Return the support of a sentence by its other tokens, as if no value were at fault."""
        if not len(support):
            return 1.0
        features = self.example.layout.sentence_features[number].copy()
        features[_VALUE_FEATURES] = 0
        mean = np.asarray(support.mean(), dtype=np.float64)
        return float(weigh_sentences(mean, features, self._layer))


def _stronger_clauses(
    text: str, offsets: IntArray, support: npt.NDArray[np.floating]
) -> Iterator[Span]:
    """Yield the clauses whose mean logit of support is far over that of the weakest one."""
    cuts = clause_cuts(text)
    clause = np.searchsorted(cuts[1:-1], offsets[:, 0], side="right")
    counts = np.bincount(clause, minlength=len(cuts) - 1)
    means = np.bincount(clause, logits_of(support), len(counts)) / np.maximum(counts, 1)
    weakest = means[counts > 0].min()
    for number in np.flatnonzero((counts > 0) & (means > weakest + _STRONGER)):
        yield Span(cuts[number], cuts[number + 1])


def _beside(spans: Sequence[MarkedSpan], covered: Sequence[Span], text: str) -> list[MarkedSpan]:
    """Return the parts of spans that are not covered, without marks and single characters."""
    starts, beside = [span.start for span in spans], list[MarkedSpan]()
    for part in subtract_spans(text, [Span(span.start, span.end) for span in spans], covered):
        words = text[part.start : part.end].lstrip(_CLOSING + " ")
        if sum(map(str.isalnum, blank_markup(words))) >= 2:
            span = spans[bisect_right(starts, part.start) - 1]
            beside.append(replace(span, start=part.end - len(words), end=part.end, text=words))
    return beside


def unsupported_spans(
    text: str, offsets: IntArray, support_probs: npt.NDArray[np.floating], threshold: float
) -> tuple[MarkedSpan, ...]:
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
        spans.append(MarkedSpan(start, end, text[start:end], probability))
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
