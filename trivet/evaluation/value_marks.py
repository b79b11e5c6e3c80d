"""Marks on the values of an unsupported sentence that its sources do not have.

Categories and subcategories are those of LettuceDetect's taxonomy (arXiv 2607.00895).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trivet.data.sentence_features import QUESTION, FoundValue
from trivet.data.tokenization import TokenizedExample
from trivet.data.values import Value, ValueKind, find_values
from trivet.data.windows import Layout
from trivet.records import ContextSpan, SpanCategory, SpanSubcategory, UnsupportedSpan

_SUBCATEGORIES: dict[ValueKind, SpanSubcategory] = {
    "number": "numerical",
    "time": "temporal",
    "quantity": "value",
    "name": "entity",
}


def mark_values(
    tokens: TokenizedExample, layout: Layout, number: int, probability: float
) -> tuple[UnsupportedSpan, ...]:
    """Return a span for each value of a response sentence that its sources do not have.

    Args:
        tokens: The example.
        layout: Its layout, with the values.
        number: The response sentence.
        probability: Probability of the sentence to be unsupported.
    """
    response, start = tokens.example.response, tokens.response_sentence_spans[number].start
    near = layout.sources[number].tolist()
    spans = []
    for found in layout.values[number]:
        if found.status == "near":
            continue
        first, last = start + found.value.span.start, start + found.value.span.end
        elsewhere = found.status == "elsewhere"
        instead = next(_like(tokens, near, found.value), None)
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
                found_at=next(_places(tokens, found), None) if elsewhere else None,
                instead=instead,
            )
        )
    return tuple(spans)


def _places(tokens: TokenizedExample, found: FoundValue) -> Iterator[ContextSpan]:
    """Yield the places of an equal value in other context sentences, or else these sentences."""
    for number in found.sentences:
        if number != QUESTION:
            yield from _like(tokens, [number], found.value, equal=True)
            yield tokens.context_sentence_spans[number]


def _like(
    tokens: TokenizedExample, sentences: Sequence[int], wanted: Value, *, equal: bool = False
) -> Iterator[ContextSpan]:
    """Yield the values of some context sentences that could be confused with one, or equal it."""
    for number in sentences:
        place = tokens.context_sentence_spans[number]
        text = tokens.example.contexts[place.context][place.start : place.end]
        for value in find_values(text):
            same = (value.amount, value.parts) == (wanted.amount, wanted.parts)
            if same if equal else not same and _comparable(value, wanted):
                first, last = place.start + value.span.start, place.start + value.span.end
                yield ContextSpan(place.context, first, last)


def _comparable(one: Value, other: Value) -> bool:
    if one.kind != other.kind:
        return False
    if one.amount is not None and other.amount is not None:
        return one.amount.dimension == other.amount.dimension
    return one.kind != "time" or {_unit(part) for part in one.parts} >= {
        _unit(part) for part in other.parts
    }


def _unit(part: str) -> str:
    return part.partition(" ")[0]
