"""Dates and clock times in a text, as parts in which equal ones are equal.

"15 Jan 1967", "January 15th, 1967" and 1967-01-15 have the parts ``year 1967`` and ``day 1-15``;
"6 pm" and 18:00 the part ``minute 1080``. The rules are for English.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trivet.data.units import UNIT_WORDS
from trivet.records import Span

Parts = tuple[str, ...]

_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)
_MONTH_NUMBERS = {name: at for at, name in enumerate(_MONTHS, 1)}
_MONTH_NUMBERS |= {name[:3]: at for name, at in _MONTH_NUMBERS.items()} | {"sept": 9}
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

MONTHS_AND_DAYS = frozenset((*_MONTHS, *_DAYS))
"""Names of months and days, in lower case."""

_MONTH = rf"(?:{'|'.join(sorted((m.capitalize() for m in _MONTH_NUMBERS), key=len, reverse=True))})"
_DAY = r"(?:[0-3]?\d)(?:st|nd|rd|th)?"
_YEAR = r"[12]\d{3}"
_UNIT = "|".join(re.escape(word) for word in sorted(UNIT_WORDS, key=len, reverse=True))

_TEMPORAL = re.compile(
    rf"\b(?P<iso>{_YEAR}-[01]\d-[0-3]\d)\b"
    rf"|\b(?P<slashed>[0-3]?\d[/.][0-3]?\d[/.]{_YEAR})\b"
    rf"|\b(?P<day1>{_DAY})\s(?:of\s)?(?P<month1>{_MONTH})\b\.?(?:,?\s(?P<year1>{_YEAR})\b)?"
    rf"|\b(?P<month2>{_MONTH})\b\.?\s(?P<day2>{_DAY})(?!\d)(?:,?\s(?P<year2>{_YEAR})\b)?"
    rf"|\b(?P<month3>{_MONTH})\b\.?,?\s(?:of\s)?(?P<year3>{_YEAR})\b"
    r"|\b(?P<hour>[0-2]?\d)(?:[:.](?P<minute>[0-5]\d))?\s?(?P<half>[ap]\.m\.|[ap]m\b)"
    r"|\b(?P<hour24>[01]?\d|2[0-3]):(?P<minute24>[0-5]\d)(?![\d:])"
    r"|\b(?P<clock>noon|midnight)\b"
    r"|\b(?P<decade>[12]\d\d0)s\b"
    rf"|(?<![\w.,$€£%-])(?P<year>1[0-9]{{3}}|20\d\d)(?![\w%]|[.,]\d|\s(?:{_UNIT})\b)"
    rf"|\b(?P<weekday>{'|'.join(day.capitalize() for day in _DAYS)})\b",
    re.IGNORECASE,
)


def find_times(text: str) -> Iterator[tuple[Span, Parts]]:
    """Yield the dates and clock times of a text with their parts, in order."""
    for match in _TEMPORAL.finditer(text):
        yield Span(*match.span()), _time_parts(match)


def _time_parts(match: re.Match[str]) -> Parts:
    """Return the parts of a date or clock time: year, month and day, weekday, minute of the day."""
    if match["iso"]:
        year, month, day = match["iso"].split("-")
        return _date(year, int(month), day)
    if match["slashed"]:
        first, second, year = re.split(r"[/.]", match["slashed"])
        # Day and month can be told apart only where one is over 12; else either order will do.
        month, day = (int(first), second) if int(second) > 12 else (int(second), first)
        return _date(year, month, day)
    for number in "123":
        name = match[f"month{number}"]
        if name:
            day = "" if number == "3" else match[f"day{number}"]
            return _date(match[f"year{number}"] or "", _MONTH_NUMBERS[name.casefold()], day)
    if match["hour"]:
        hour = int(match["hour"]) % 12 + 12 * match["half"].lower().startswith("p")
        return (f"minute {60 * hour + int(match['minute'] or 0)}",)
    if match["hour24"]:
        return (f"minute {60 * int(match['hour24']) + int(match['minute24'])}",)
    if match["clock"]:
        return ("minute 720" if match["clock"].lower() == "noon" else "minute 0",)
    if match["decade"]:
        return (f"decade {match['decade'][:-1]}",)
    if match["year"]:
        return (f"year {int(match['year'])}",)
    return (f"weekday {match['weekday'].lower()}",)


def _date(year: str, month: int, day: str) -> Parts:
    number = re.sub(r"\D", "", day)
    parts = [f"day {month}-{int(number)}"] if number else [f"month {month}"]
    return (*([f"year {int(year)}"] if year else []), *parts)
