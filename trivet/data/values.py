"""Values in a text: numbers, dates and times, quantities with a unit, and names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trivet.data.amounts import Amount, find_amounts
from trivet.data.dates import find_times
from trivet.data.names import find_names
from trivet.data.written_forms import blank_markup
from trivet.records import Span

ValueKind = Literal["number", "time", "quantity", "name"]
VALUE_KINDS: tuple[ValueKind, ...] = ("number", "time", "quantity", "name")


@dataclass(frozen=True, slots=True)
class Value:
    """A value and its place.

    Attributes:
        kind: Type of the value.
        span: Characters of the text.
        amount: Magnitude of a number or quantity; None for the others.
        parts: Parts of a date or clock time, or the words of a name; all must be found.
    """

    kind: ValueKind
    span: Span
    amount: Amount | None = None
    parts: tuple[str, ...] = ()


def find_values(text: str) -> list[Value]:
    """Return the values of a text, in order and without overlap; marks of Markdown are no content.

    A date is no number, and neither is a name.
    """
    text = blank_markup(text)
    taken: set[int] = set()
    found: list[Value] = []

    def add(value: Value) -> None:
        place = range(value.span.start, value.span.end)
        if taken.isdisjoint(place):
            taken.update(place)
            found.append(value)

    for span, parts in find_times(text):
        add(Value("time", span, parts=parts))
    for span, amount in find_amounts(text):
        kind: ValueKind = "number" if amount.dimension in ("", "ratio") else "quantity"
        add(Value(kind, span, amount))
    for span, parts in find_names(text):
        add(Value("name", span, parts=parts))
    return sorted(found, key=lambda value: value.span.start)
