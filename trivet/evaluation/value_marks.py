"""Values of a response that its sources do not have, with their places and what is in theirs.

Categories and subcategories are those of LettuceDetect's taxonomy (arXiv 2607.00895).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from trivet.data.sentence_features import NEAR_SENTENCES, QUESTION, content_words
from trivet.data.values import Amount, Value, ValueKind
from trivet.evaluation.preprocessing import PreprocessedExample
from trivet.records import ContextSpan, MarkedSpan, SentenceVerdict, SpanCategory, SpanSubcategory

_BESIDE, _REACH = 3, 80  # content words on each side of a value, and characters they are in
_MAX_ALIKE = 20  # values of one sentence that one value is compared with
_Sort = tuple[ValueKind, str, frozenset[str]]
_Same = tuple[Amount | None, tuple[str, ...]]
_SUBCATEGORIES: dict[ValueKind, SpanSubcategory] = {
    "number": "numerical",
    "time": "temporal",
    "quantity": "value",
    "name": "entity",
}


def mark_values(
    preprocessed: PreprocessedExample,
    places: PlacedValues,
    number: int,
    sentence: SentenceVerdict,
) -> Iterator[MarkedSpan]:
    """Yield a span for each value of a response sentence that its sources do not have."""
    response, layout = preprocessed.example.response, preprocessed.layout
    start = preprocessed.tokens.response_sentence_spans[number].start
    near = layout.sources[number][:NEAR_SENTENCES].tolist()
    probability = 0.0 if sentence.support is None else 1 - sentence.support
    values = (value for value, _, _ in layout.values[number])
    beside = {placed.same: placed.words for placed in _placed(sentence.text, values)}
    for value, status, sentences in layout.values[number]:
        if status == "near":
            continue
        first, last = start + value.span.start, start + value.span.end
        elsewhere = status == "elsewhere"
        at = next((n for n in sentences if n != QUESTION), None) if elsewhere else None
        instead = places.instead(near, value, beside)
        category: SpanCategory = "unsupported_addition"
        if elsewhere or (instead is not None and value.kind != "name"):
            category = "contradiction"
        elif value.kind == "name":
            category = "fabricated_reference"
        yield MarkedSpan(
            start=first,
            end=last,
            text=response[first:last],
            probability=probability,
            reason="value_of_another_passage" if elsewhere else "value_not_in_contexts",
            category=category,
            subcategory=_SUBCATEGORIES[value.kind],
            found_at=None if at is None else places.equal(at, value),
            instead=instead,
        )


class _Placed(NamedTuple):
    """A value in a text, and the content words beside it, which tell its role."""

    value: Value
    words: frozenset[str]

    @property
    def same(self) -> _Same:
        return self.value.amount, self.value.parts


class PlacedValues:
    """Values of the context sentences of an example, with the words beside them."""

    def __init__(self, preprocessed: PreprocessedExample) -> None:
        tokens = preprocessed.tokens
        self._spans, self._contexts = tokens.context_sentence_spans, tokens.example.contexts
        self._known = preprocessed.layout.context_values
        self._read: dict[int, dict[_Sort, list[_Placed]]] = {}

    def _values(self, number: int) -> dict[_Sort, list[_Placed]]:
        """Return the values of a context sentence, by what they can be confused with."""
        if number not in self._read:
            span, sorts = self._spans[number], self._read.setdefault(number, {})
            text = self._contexts[span.context][span.start : span.end]
            for placed in _placed(text, self._known.values(number)):
                sorts.setdefault(_sort(placed.value), []).append(placed)
        return self._read[number]

    def _place(self, number: int, value: Value) -> ContextSpan:
        sentence, span = self._spans[number], value.span
        first, last = sentence.start + span.start, sentence.start + span.end
        return ContextSpan(sentence.context, first, last)

    def instead(
        self, numbers: Sequence[int], wanted: Value, beside: Mapping[_Same, frozenset[str]]
    ) -> ContextSpan | None:
        """Return the value that some sentences have in the role of one that they lack.

        It is of the same kind and unit, and has most words beside it in common with the wanted one:
        without any, or if another has as many, there is none. ``beside`` has the values of the
        response sentence with those words; a value that it has as well is not taken.
        """
        sort, words = _sort(wanted), beside.get((wanted.amount, wanted.parts), frozenset())
        alike = [
            (len(words & placed.words), number, placed)
            for number in numbers
            for placed in self._values(number).get(sort, ())[:_MAX_ALIKE]
            if placed.same not in beside
        ]
        most = max((count for count, *_ in alike), default=0)
        best = [(number, placed) for count, number, placed in alike if count == most]
        if not most or len({placed.same for _, placed in best}) > 1:
            return None
        number, placed = best[0]
        return self._place(number, placed.value)

    def equal(self, number: int, wanted: Value) -> ContextSpan:
        """Return the place of an equal value in a sentence, or that of the sentence."""
        for placed in self._values(number).get(_sort(wanted), ())[:_MAX_ALIKE]:
            if placed.same == (wanted.amount, wanted.parts):
                return self._place(number, placed.value)
        return self._spans[number]


def _placed(text: str, values: Iterable[Value]) -> Iterator[_Placed]:
    """Yield the values of a text with the content words beside them."""
    for value in values:
        start, end = value.span.start, value.span.end
        before = content_words(text[max(0, start - _REACH) : start])[-_BESIDE:]
        after = content_words(text[end : end + _REACH])[:_BESIDE]
        yield _Placed(value, frozenset((*before, *after)))


def _sort(value: Value) -> _Sort:
    """Return kind, dimension and units of time: values can be confused with those of their sort."""
    dimension = value.amount.dimension if value.amount is not None else ""
    units = (part.partition(" ")[0] for part in value.parts) if value.kind == "time" else ()
    return value.kind, dimension, frozenset(units)
