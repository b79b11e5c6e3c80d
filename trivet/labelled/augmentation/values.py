"""Values of a response that a twin changes, and how else they may be written.

They are the values of verdicts (`trivet.data.values`), with the number of a quantity and its unit
apart. A value that is not found is only not altered.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Literal

from trivet.data import values
from trivet.data.value_words import UNIT_WORDS, Unit, unit_of
from trivet.records import Span

Kind = Literal["number", "date", "entity"]

NUMBER_WORDS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve"),
)
_SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_UNITS = {word.casefold(): unit_of(word) for word in UNIT_WORDS}
_UNITS |= {word: Unit("", factor) for word, factor in _SCALES.items()}
_NUMBER = re.compile(rf"\d[\d,]*(?:\.\d+)?|\b(?:{'|'.join(NUMBER_WORDS)})\b", re.IGNORECASE)
_MONTH_DAY = re.compile(r"([A-Z][a-z]+) (\d{1,2}), ?(\d{4})")
_DAY_MONTH = re.compile(r"(\d{1,2}) ([A-Z][a-z]+) (\d{4})")
_CONTEXT_CHARACTERS = 30  # before a value, in which the two words before it are looked for
_SHORT = 2  # letters of an abbreviated unit


@dataclass(frozen=True, slots=True)
class Value:
    """A value and its place.

    Attributes:
        kind: Only values of one kind can be confused.
        span: Characters of the text; of a quantity those of its number.
        text: These characters.
        normal: Equal for values that are equal: "1,000" and "1000", "two hours" and "120 minutes".
        number: Number that the characters say.
        unit: Characters of the unit, or of a word such as "million"; None without one.
    """

    kind: Kind
    span: Span
    text: str
    normal: Hashable
    number: float = 0.0
    unit: Span | None = None


def find_values(text: str) -> list[Value]:
    """Return the values of a text in order; they do not overlap."""
    return [one for value in values.find_values(text) for one in _altered(text, value)]


def _altered(text: str, value: values.Value) -> Iterator[Value]:
    place, amount = value.span, value.amount
    written = text[place.start : place.end]
    if amount is None:
        kind: Kind = "date" if value.kind == "time" else "entity"
        yield Value(kind, place, written, (kind, value.parts))
    elif found := _NUMBER.search(written):
        rest = written[found.end() :].lstrip(" -")
        unit = Span(place.end - len(rest), place.end) if rest.casefold() in _UNITS else None
        own = Span(place.start + found.start(), place.start + found.end())
        normal = _quantity(amount.dimension, amount.magnitude)
        yield Value("number", own, found[0], normal, _number(found[0]), unit)


def _quantity(dimension: str, magnitude: float) -> tuple[str, float]:
    return dimension, float(f"{magnitude:.9g}")


def _number(text: str) -> float:
    low = text.lower()
    return float(NUMBER_WORDS.index(low) if low in NUMBER_WORDS else low.replace(",", ""))


def with_text(value: Value, text: str) -> Hashable:
    """Return the ``normal`` of a value whose characters are others; the unit stays."""
    if value.kind == "number" and isinstance(value.normal, tuple):
        dimension, magnitude = value.normal
        return _quantity(dimension, magnitude / (value.number or 1.0) * _number(text))
    found = find_values(text)
    return found[0].normal if found else text


def with_unit(number: float, unit: str) -> Hashable:
    """Return the ``normal`` of a number with a unit."""
    known = _UNITS[unit.casefold()]
    return _quantity(known.dimension, number * known.factor + known.offset)


def units_like(unit: str) -> list[str]:
    """Return the other units of a unit's dimension, written alike: in the plural or abbreviated."""
    if unit.casefold() in _SCALES:
        return [other for other in _SCALES if other != unit.casefold()]
    own, found = _UNITS[unit.casefold()], dict[float, str]()
    for other, known in UNIT_WORDS.items():
        is_foreign = len({_spelling(unit), _spelling(other), ""}) > 2
        if known.dimension == own.dimension and _form(other) == _form(unit) and not is_foreign:
            # The longest word: "minutes", not "mins".
            found[known.factor] = max(found.get(known.factor, ""), other, key=len)
    return [other for factor, other in found.items() if factor != own.factor]


def _form(unit: str) -> tuple[bool, bool, bool]:
    return len(unit) > _SHORT, unit.endswith("s") or unit == "feet", unit.isascii()


def _spelling(unit: str) -> str:
    """Return how "metre" or "litre" ends in a unit, in Britain or in America; else nothing."""
    found = re.search(r"(?:met|lit)(re|er)", unit)
    return found[1] if found else ""


def words_before(text: str, value: Value) -> tuple[str, ...]:
    """Return the two words before a value, in lower case."""
    start = value.span.start
    return tuple(text[max(0, start - _CONTEXT_CHARACTERS) : start].lower().split()[-2:])


def form_of(value: str) -> str:
    """Return how a value is written: its kinds of characters, without repetition."""
    kinds = ("9" if c.isdigit() else "a" if c.isalpha() else c for c in value)
    return re.sub(r"(.)\1+", r"\1", "".join(kinds))


def other_form(value: str) -> str | None:
    """Write a number or date in another usual form, or return ``None`` if it has none."""
    if value.lower() in NUMBER_WORDS:
        return str(NUMBER_WORDS.index(value.lower()))
    if value.isdecimal() and 2 <= int(value) < len(NUMBER_WORDS) and value[0] != "0":
        return NUMBER_WORDS[int(value)]
    if re.fullmatch(r"\d{1,3}(,\d{3})+", value):
        return value.replace(",", "")
    if re.fullmatch(r"[1-9]\d{4,8}", value):
        return f"{int(value):,}"
    if match := _MONTH_DAY.fullmatch(value):
        return f"{match[2]} {match[1]} {match[3]}"
    if match := _DAY_MONTH.fullmatch(value):
        return f"{match[2]} {match[1]}, {match[3]}"
    return None
