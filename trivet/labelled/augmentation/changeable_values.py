"""Values in a text that a response can get wrong: numbers, dates, units and names.

Regular expressions for English; a value that is not found is only not altered.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from trivet.data.value_words import MONTHS, ONES
from trivet.records import Span

Kind = Literal["number", "date", "unit", "entity"]

_MONTH = "(?:" + "|".join(name.capitalize() for name in MONTHS) + ")"
NUMBER_WORDS = ONES[:13]
# Units of one dimension; a wrong unit is drawn from the same line.
UNITS = (
    ("seconds", "minutes", "hours", "days", "weeks", "months", "years", "decades", "centuries"),
    ("millimetres", "centimetres", "metres", "kilometres", "inches", "feet", "yards", "miles"),
    ("millimeters", "centimeters", "meters", "kilometers", "inches", "feet", "yards", "miles"),
    ("mm", "cm", "km", "ft"),
    ("milligrams", "grams", "kilograms", "tons", "ounces", "pounds"),
    ("mg", "g", "kg", "lb", "oz"),
    ("thousand", "million", "billion", "trillion"),
    ("teaspoons", "tablespoons", "cups", "pints", "quarts", "gallons", "litres", "liters"),
    ("acres", "hectares"),
    ("kb", "mb", "gb", "tb"),
)
_UNIT = "|".join(sorted({unit for line in UNITS for unit in line}, key=len, reverse=True))
# The same unit in American spelling and in the singular.
_SAME_UNIT = {
    **{"mm": "millimeter", "cm": "centimeter", "m": "meter", "km": "kilometer"},
    **{"feet": "foot", "ft": "foot", "inches": "inch", "centuries": "century"},
    **{"mg": "milligram", "g": "gram", "kg": "kilogram", "lb": "pound", "lbs": "pound"},
    **{"oz": "ounce", "sec": "second", "secs": "second", "min": "minute", "mins": "minute"},
    **{"hr": "hour", "hrs": "hour", "yr": "year", "yrs": "year", "tsp": "teaspoon"},
    **{"tbsp": "tablespoon"},
}

_DATES = re.compile(
    rf"\b(?:\d{{1,2}} {_MONTH}(?: \d{{4}})?|{_MONTH} \d{{1,2}}(?:, ?\d{{4}}|\b)(?!\d)"
    rf"|{_MONTH} \d{{4}}|(?:1\d|20)\d\d)(?![\w%]|[.,]\d)"
)
_NUMBERS = re.compile(
    r"(?<![\w.,])(?<![A-Za-z]-)(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\w|[.,]\d)"
    rf"|\b(?:{'|'.join(NUMBER_WORDS[2:])})\b"
)
# A capital alone is another thing: 5G, 3M.
_NO_CAPITAL = r"(?!(?-i:[A-Z])\b)"
_UNITS = re.compile(rf"(?<=\d ){_NO_CAPITAL}(?:{_UNIT})\b", re.IGNORECASE)
_WRITTEN = "|".join(
    sorted(
        {form for unit in _UNIT.split("|") for form in (unit, unit.removesuffix("s"))}
        | {form for pair in _SAME_UNIT.items() for form in pair},
        key=len,
        reverse=True,
    )
)
_QUANTITIES = re.compile(
    rf"(?<![\w.,/])(\d[\d,]*(?:\.\d+)?|{'|'.join(NUMBER_WORDS)})[\s-]?{_NO_CAPITAL}({_WRITTEN})\b",
    re.IGNORECASE,
)
_ENTITIES = re.compile(r"\b[A-Z][\w'\u2019-]+(?: (?:of |the |de )?[A-Z][\w'\u2019-]+)*")
# The number of a list item, a passage or a step is a position, not a fact.
_POSITION_BEFORE = re.compile(
    r"(?:(?:^|\n)[^\w\n]*|\b(?:passage|context|document|source|step|figure|table)s?[\s:#]*"
    r"(?:\d+(?:,| and|, and) )*)$",
    re.IGNORECASE,
)
_POSITION_AFTER = re.compile(r"(?<!\d\d\d)[.):]\s+[A-Z*]")
_LOWER = re.compile(r"\b[a-z][\w'\u2019-]+")
_SENTENCE_START = re.compile(r"(?:^|[.!?:]['\")\]]*\s+|\n\s*|[-*•]\s+)$")


_MONTH_DAY = re.compile(r"([A-Z][a-z]+) (\d{1,2}), ?(\d{4})")
_DAY_MONTH = re.compile(r"(\d{1,2}) ([A-Z][a-z]+) (\d{4})")
_CONTEXT_CHARACTERS = 30  # before a value, in which the two words before it are looked for


@dataclass(frozen=True, slots=True)
class ChangeableValue:
    """A value and its place."""

    kind: Kind  # type of the value; only values of one type can be confused
    span: Span  # characters of the text
    text: str  # the characters
    normal: str  # form in which equal values are equal: "1,000" and "1000", "two" and "2"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit."""

    unit: Span  # characters of the unit
    normal: tuple[float, str]  # equal for "5 kg", "five kilograms" and "5.0-kilogram"


def find_quantities(text: str) -> list[Quantity]:
    """Return the numbers with a unit in a text, in order."""
    return [
        Quantity(
            Span(*match.span(2)),
            (float(normalize(match[1]).replace(",", "")), normalize_unit(match[2])),
        )
        for match in _QUANTITIES.finditer(text)
    ]


def units_like(unit: str) -> list[str]:
    """Return the other units of a unit's dimension, written alike: in the plural or abbreviated."""
    lines = [line for line in UNITS if unit.lower() in line]
    normal = normalize_unit(unit)
    others = dict.fromkeys(other for line in lines for other in line)
    return [other for other in others if normalize_unit(other) != normal]


def find_values(text: str) -> list[ChangeableValue]:
    """Return the values of a text in order; they do not overlap."""
    taken: list[ChangeableValue] = []
    patterns: tuple[tuple[Kind, re.Pattern[str]], ...] = (
        ("date", _DATES),
        ("unit", _UNITS),
        ("number", _NUMBERS),
    )
    for kind, pattern in patterns:
        for match in pattern.finditer(text):
            if kind != "number" or not _is_position(match):
                _add(taken, kind, match, normalize(match[0]))
    lower_case = set(_LOWER.findall(text))
    for match in _ENTITIES.finditer(text):
        # A single capitalised word at the start of a sentence, or that is also written in lower
        # case, is any word.
        name = match[0].lower()
        start = _SENTENCE_START.search(text[max(0, match.start() - 8) : match.start()])
        if " " in name or not (start or name in lower_case or name in MONTHS):
            _add(taken, "entity", match, name)
    return sorted(taken, key=lambda value: value.span.start)


def words_before(text: str, value: ChangeableValue) -> tuple[str, ...]:
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


def _is_position(match: re.Match[str]) -> bool:
    text, start, end = match.string, match.start(), match.end()
    before = _POSITION_BEFORE.search(text[max(0, start - _CONTEXT_CHARACTERS) : start])
    return bool(before or _POSITION_AFTER.match(text, end))


def normalize(value: str) -> str:
    """Return the form in which equal numbers, dates or units are equal."""
    low = value.lower()
    if low in NUMBER_WORDS:
        return str(NUMBER_WORDS.index(low))
    return re.sub(r"(?<=\d),(?=\d{3})", "", low)


def normalize_unit(unit: str) -> str:
    """Return the form in which equal units are equal: "kg" and "kilograms", "metres", "meter"."""
    low = unit.lower()
    singular = _SAME_UNIT.get(low) or low.removesuffix("s")
    return singular.replace("metre", "meter").replace("litre", "liter")


def _add(taken: list[ChangeableValue], kind: Kind, match: re.Match[str], normal: str) -> None:
    span = Span(*match.span())
    if all(span.end <= other.span.start or other.span.end <= span.start for other in taken):
        taken.append(ChangeableValue(kind, span, match[0], normal))
