"""Values in a text: numbers, dates and times, quantities with a unit, and names.

Equal values are equal in any form: 1,000 and "one thousand", 5 km and 5,000 m, "a quarter of" and
25 %, "15 Jan 1967" and 1967-01-15, "6 pm" and 18:00. List marks, citation marks and the numbers of
steps and passages are positions, not facts. The rules are for English.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Literal, NamedTuple

from trivet.data.value_words import (
    CURRENCIES,
    DAYS,
    DEGREES,
    FRACTIONS,
    MONTH_NUMBERS,
    NUMBER_WORDS,
    ONES,
    ORDINALS,
    SCALES,
    TENS,
    UNIT_WORDS,
    VULGAR,
    Unit,
    unit_of,
)
from trivet.data.written_forms import ANY_MARK, blank_markup
from trivet.records import Span

ValueKind = Literal["number", "time", "quantity", "name"]
VALUE_KINDS: tuple[ValueKind, ...] = ("number", "time", "quantity", "name")
Parts = tuple[str, ...]


class Amount(NamedTuple):
    """A magnitude in the base unit of its dimension."""

    dimension: str  # "" for a bare number
    magnitude: float  # in the dimension's base unit
    step: float  # value of the last digit as written, in the base unit
    number: float  # as written
    factor: float = 1.0  # of the unit to the base unit
    rough: bool = False  # rounded, as words such as "about" and "million" say


@dataclass(frozen=True, slots=True)
class Value:
    """A value and its place."""

    kind: ValueKind
    span: Span
    amount: Amount | None = None  # magnitude of a number or quantity
    # those of a date or clock time, such as ``year 1967``, ``day 1-15`` and ``minute 1080`` (or
    # ``minute 360|1080``, of either half of the day), or the words of a name; all must be found
    parts: Parts = ()


_UNIT = "|".join(re.escape(word) for word in sorted(UNIT_WORDS, key=len, reverse=True))
_MONTH = rf"(?:{'|'.join(sorted(MONTH_NUMBERS, key=len, reverse=True))})"
_DAY, _YEAR = r"(?:[0-3]?\d)(?:st|nd|rd|th)?", r"[12]\d{3}"
_HOURS = ONES[1:13]
# The first characters are tested at once, else every alternative would be tried everywhere.
_TIME = re.compile(
    rf"\b(?=[\d{''.join({word[0] for word in (*MONTH_NUMBERS, *DAYS, *_HOURS)})}])(?:"  # also noon
    rf"(?P<iso>{_YEAR}-[01]\d-[0-3]\d)\b"
    rf"|(?P<slashed>[0-3]?\d[/.][0-3]?\d[/.]{_YEAR})\b"
    rf"|(?P<day1>{_DAY})\s(?:of\s)?(?P<month1>{_MONTH})\b(?:\.?,?\s(?P<year1>{_YEAR})\b)?"
    rf"|(?P<month2>{_MONTH})\b\.?\s(?P<day2>{_DAY})(?!\d)(?:,?\s(?P<year2>{_YEAR})\b)?"
    rf"|(?P<month3>{_MONTH})\b\.?,?\s(?:of\s)?(?P<year3>{_YEAR})\b"
    r"|(?P<hour>[0-2]?\d)(?:[:.](?P<minute>[0-5]\d))?(?:\s?(?P<half>[ap]\.m\.|[ap]m\b)"
    r"|(?=\s?(?:[-–]|to|and)\s?(?P<end>[0-2]?\d)(?:[:.][0-5]\d)?\s?(?P<end_half>[ap]\.?m\b)))"
    r"|(?P<hour24>[01]?\d|2[0-3]):(?P<minute24>[0-5]\d)(?![\d:])"
    rf"|(?P<clock>1?\d|{'|'.join(_HOURS)})\so['’]clock\b"
    r"|(?P<noon>noon|midnight)\b"
    r"|(?P<decade>[12]\d\d0)s\b"
    rf"|(?<![\w.,$€£%-])(?P<year>1[0-9]{{3}}|20\d\d)(?![\w%]|[.,]\d|\s(?:{_UNIT})\b)"
    r"(?:[-–](?P<until>\d\d)(?![\w-]))?"
    rf"|(?P<weekday>{'|'.join(DAYS)})\b)",
    re.IGNORECASE,
)
_FIGURE = r"\d{1,3}(?:[,\u00a0\u202f]\d{3})+(?:\.\d{1,9})?|\d{1,18}(?:\.\d{1,9})?"
_WORD = rf"(?:{'|'.join(sorted(NUMBER_WORDS, key=len, reverse=True))})"
_ONE = rf"(?:(?:{'|'.join(TENS)})[\s-](?:{'|'.join(ONES[1:10])})|{_WORD})\b"  # below a hundred
_LARGE = r"(?:dozen|hundred|thousand|million|billion|trillion)\b"
_WORDS = rf"(?:{_ONE}|a(?=\s{_LARGE}))(?:(?:[\s-]{_LARGE})+(?:\s(?:and\s)?{_ONE})?)*"
_SCALE = (
    r"(?:hundred|thousand|million|billion|trillion|[mb]n|tn|k(?![\w'])|(?-i:[MB])(?![\w'/²]|\.\w))"
)
_VULGAR = rf"[{''.join(VULGAR)}]"
_OVER = r"(?<![\w.,/])(?:1/[2-8]|2/3|3/[48]|[57]/8)(?![\d/])"  # "4/5" is rather a mark
_HALF = r"\sand\sa\s(?:half|quarter)\b"
_SIGN = "|".join(re.escape(sign) for sign in sorted(CURRENCIES, key=len, reverse=True))
_NAMED = "(?:hour|minute|day|week|month|year|decade|century|mile|kilo)"
_AMOUNT = re.compile(
    rf"(?=[\d{''.join(VULGAR)}]|{_SIGN})"
    rf"(?:(?P<alone>{_VULGAR}|{_OVER})(?:[\s-]{{0,6}}(?P<unit4>{_UNIT})(?![\w']))?|"
    rf"(?:(?P<sign>{_SIGN})\s{{0,6}})?(?<![\w.,])(?P<figure>{_FIGURE})(?P<ordinal>st|nd|rd|th)?"
    rf"(?P<vulgar>{_VULGAR}|[\s-]{_OVER}|{_HALF})?(?![.,]?\d)"
    rf"(?:[\s-]{{0,6}}(?P<scale>{_SCALE}))?(?:[\s-]{{0,6}}(?P<unit>{_UNIT})(?![\w']))?)"
    rf"|\b(?=[a{''.join({word[0] for word in (*NUMBER_WORDS, *FRACTIONS, *ORDINALS)})}])(?:"
    r"(?:(?P<count>a|one|two|three|four)[\s-])?(?P<fraction>half|thirds?|quarters?|fifths|tenths)"
    rf"\b(?:\s(?:of\s)?an?\s(?P<unit5>{_NAMED})\b|(?=\s(?:of|the|a|an|all)\b))"
    rf"|(?P<article>an?)\s(?P<unit3>{_NAMED})\b"
    rf"(?P<half>{_HALF})?|(?P<rank>{'|'.join(sorted(ORDINALS, key=len, reverse=True))})\b"
    rf"|(?P<words>{_WORDS})(?P<part>{_HALF})?(?:[\s-](?P<unit2>{_UNIT})(?![\w']))?\b)",
    re.IGNORECASE,
)
# A text without any of these has no time or amount; most sentences need no further look.
_DIGIT = re.compile(rf"[\d{''.join(VULGAR)}]")
_LETTERS = re.compile("[a-z]+")
_TIME_WORDS = frozenset((*DAYS, "noon", "midnight", "clock"))
_AMOUNT_WORDS = frozenset((*NUMBER_WORDS, *FRACTIONS, *ORDINALS, *SCALES)).union(
    ("hour", "minute", "day", "week", "month", "year", "decade", "century", "mile", "kilo")
)
_DOTS = str.maketrans("İı", "Ii")  # an "i" for patterns that ignore case, but not for the tables
# The number of a list item, a passage or a step is a position, not a fact.
_POSITION_BEFORE = re.compile(
    r"(?:(?:^|\n)[\s*#>(\[-]*"
    r"|\b(?:passage|context|document|source|reference|step|figure|fig|table|chapter|section|item)"
    r"s?[\s:#.]*(?:\d+(?:,| and|, and|-) ?)*|[.:;!?]\s+)$|[\[(]$",
    re.IGNORECASE,
)
_POSITION_AFTER = re.compile(r"\s?[.):\]]+(?:\s|\*|$)|\s{1,300}\]")
_ROUNDED = re.compile(
    r"(?:\b(?:about|around|approximately|approx\.?|roughly|nearly|almost|some|over|under|more than"
    r"|less than|at least|up to|close to|circa|ca\.)|[~≈<>])\s*$",
    re.IGNORECASE,
)
_MINUS = re.compile(r"(?:(?<![\w)\]])[-\u2212–]|\bminus\s)$", re.IGNORECASE)
_BEFORE = 40  # characters before a number or a name that are looked at
_NAME_WORD = r"(?:(?:[A-Z]\.){2,}[A-Z]?|[A-Z](?:[a-zà-öø-ÿ'’-]+|\.)?[A-Z]?[\wà-öø-ÿ'’&-]*)"
_NAMES = re.compile(rf"(?<![\w’']){_NAME_WORD}(?:\s(?:(?:of|the|de|van|von|and)\s)?{_NAME_WORD})*")
_STARTS = re.compile(
    r"(?:^\s*|[.!?:;\n]['\"”’)\]*]*\s*|[\"“‘(\[*#>|•-]\s*|\n\s*|(?:^|\s)(?:\d{1,3}|[A-Za-z])[.)]\s*)$"
)
_NAME_WORDS = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
_NO_NAMES = frozenset((*MONTH_NUMBERS, *DAYS)).union(
    """
    i i'm i'll i'd i've a an the it its he she they we you this that these those there here if
    when while where what which who how why yes no not and or but so as at by for from in into
    of on to with passage passages context contexts document documents source sources step note
    mr mrs ms dr prof st
    """.split()  # noqa: SIM905 (one word a line would be hard to read)
)
_POSSESSIVE = re.compile(r"['’]s$")
_INFLECTION = re.compile(r"(?<=\w{5})(?:ian|an|ese|ish|ic|[nsaeioy])+$")


def find_values(text: str) -> list[Value]:
    """Return the values of a text, in order and without overlap; marks of Markdown are no content.

    A date is no number, and neither is a name.
    """
    if ANY_MARK.search(text):
        text = blank_markup(text)
    plain = text if text.isascii() else text.translate(_DOTS)
    digits = _DIGIT.search(plain)
    words = () if digits else _LETTERS.findall(plain.casefold())
    taken = bytearray(len(text))
    found: list[Value] = []
    if digits or not _TIME_WORDS.isdisjoint(words):
        for match in _TIME.finditer(plain):
            start, end = match.span()
            taken[start:end] = b"\1" * (end - start)
            found.append(Value("time", Span(start, end), parts=_time_parts(match)))
    if digits or not _AMOUNT_WORDS.isdisjoint(words):
        for match in _AMOUNT.finditer(plain):
            start, end = match.span()
            amount = None if any(taken[start:end]) else _amount(match)
            if amount is not None:
                taken[start:end] = b"\1" * (end - start)
                kind: ValueKind = "number" if amount.dimension in ("", "ratio") else "quantity"
                found.append(Value(kind, Span(start, end), amount))
    for span, parts in _find_names(text):
        if not any(taken[span.start : span.end]):
            found.append(Value("name", span, parts=parts))
    return sorted(found, key=attrgetter("span.start"))


def _time_parts(match: re.Match[str]) -> Parts:
    """Return the parts of a date or clock time: year, month and day, weekday, minute of the day."""
    if match["hour"]:
        hour, half = int(match["hour"]) % 12, match["half"] or match["end_half"]
        minute = 60 * hour + int(match["minute"] or 0)
        if match["end"] and int(match["end"]) % 12 < hour:  # "10-2 pm" may begin in the morning
            return (either_half(minute),)
        return (f"minute {minute + 720 * half.lower().startswith('p')}",)
    if match["hour24"]:
        minute, hour = int(match["minute24"]), int(match["hour24"])
        if match["hour24"][0] != "0" and hour <= 12:
            return (either_half(60 * hour + minute),)
        return (f"minute {60 * hour + minute}",)
    if match["clock"]:
        hour = int(NUMBER_WORDS.get(match["clock"].casefold()) or match["clock"])
        return (either_half(60 * hour),)
    if match["noon"]:
        return ("minute 720" if match["noon"].lower() == "noon" else "minute 0",)
    if match["decade"]:
        return (f"decade {match['decade'][:-1]}",)
    if match["year"]:
        year, until = match["year"], match["until"] or ""
        later = until > year[2:]
        return (f"year {int(year)}", *([f"year {int(year[:2] + until)}"] if later else ()))
    if match["weekday"]:
        return (f"weekday {match['weekday'].lower()}",)
    if match["iso"]:
        year, month, day = match["iso"].split("-")
    elif match["slashed"]:
        first, second, year = re.split(r"[/.]", match["slashed"])
        # Day and month can be told apart only where one is over 12; else either order will do.
        month, day = (first, second) if int(second) > 12 else (second, first)
    else:
        number = next(number for number in "123" if match[f"month{number}"])
        year, day = match[f"year{number}"] or "", "" if number == "3" else match[f"day{number}"]
        month = str(MONTH_NUMBERS[match[f"month{number}"].casefold()])
    day = re.sub(r"\D", "", day)
    of_year = f"day {int(month)}-{int(day)}" if day else f"month {int(month)}"
    return (f"year {int(year)}", of_year) if year else (of_year,)


def either_half(minute: int) -> str:
    """Return the part of a time that may be of either half of the day."""
    return f"minute {minute % 720}|{minute % 720 + 720}"


def _amount(match: re.Match[str]) -> Amount | None:
    """Return the magnitude of a number; ``None`` for positions and pronouns."""
    unit, step, rough = None, 1.0, False
    if match["figure"]:
        if not match["sign"] and _is_position(match):
            return None
        digits = re.sub(r"[,\u00a0\u202f]", "", match["figure"])
        number, step = float(digits), 10.0 ** -len(digits.partition(".")[2])
        number += _part(match["vulgar"])
        if match["scale"]:
            factor = SCALES[match["scale"].casefold()]
            number, step = number * factor, step * factor
        if match["sign"]:
            millions = 1e6 if match["unit"] == "m" else 1.0
            number, step = number * millions, step * millions
            unit = Unit(CURRENCIES[match["sign"].upper()], 1.0)
        elif match["unit"]:
            unit = unit_of(match["unit"])
        before = match.string[max(0, match.start() - _BEFORE) : match.start()]
        if unit is not None and unit.dimension == DEGREES and _MINUS.search(before):
            number = -number
        rough = step > 1 or bool(_ROUNDED.search(before))
    elif match["words"]:
        number = _from_words(match["words"]) + _part(match["part"])
        unit = unit_of(match["unit2"]) if match["unit2"] else None
        rough = bool(re.search(r"[mbtr]illion", match["words"], re.IGNORECASE))
        step = 1e6 if rough else 1.0
        if number <= 2 and unit is None:  # "one" and "the two" are pronouns
            return None
    elif match["article"]:
        number, unit = 1.0 + _part(match["half"]), unit_of(match["unit3"])
    elif match["rank"]:
        number = float(ORDINALS[match["rank"].casefold()])
    else:
        part = _part(match["alone"])
        if match["fraction"]:
            count = NUMBER_WORDS.get((match["count"] or "one").casefold(), 1.0)
            part = count * FRACTIONS[match["fraction"].casefold()]
        named = match["unit4"] or match["unit5"]
        unit = unit_of(named) if named else Unit("ratio", 1.0)
        number, step, rough = part, 0.01, True
    if unit is None:
        return Amount("", number, step, number, rough=rough)
    magnitude = number * unit.factor + unit.offset
    return Amount(unit.dimension, magnitude, step * unit.factor, number, unit.factor, rough)


def _is_position(match: re.Match[str]) -> bool:
    start, end = match.span("figure")
    before = _POSITION_BEFORE.search(match.string[max(0, start - _BEFORE) : start])
    if before is None:
        return False
    # At the start of a text or sentence a number may be a fact: "330 metres.", "Rooms: 120."
    bare = not before[0].strip(" \t\n*#>([-.:;!?")
    after = _POSITION_AFTER.match(match.string, end)
    if not bare or after is None:
        return not bare
    return not before[0].rstrip().endswith(":") or after.end() < len(match.string)


def _part(text: str | None) -> float:
    """Return the fraction that a text such as "½", "3/4" or "and a half" says, 0 for none."""
    if not text:
        return 0.0
    if "/" in text:
        over, _, under = text.strip(" -\n\t").partition("/")
        return int(over) / int(under)
    return VULGAR.get(text) or FRACTIONS[text.split()[-1].casefold()]


def _from_words(text: str) -> float:
    """Return the number that words name: "one hundred and fifty" is 150."""
    total = part = 0.0
    for word in re.split(r"[\s-]+", text.casefold()):
        if word in ("dozen", "hundred"):
            part = max(part, 1) * SCALES[word]
        elif word in NUMBER_WORDS:
            part += NUMBER_WORDS[word]
        elif word not in ("a", "and"):
            total, part = total + max(part, 1) * SCALES[word], 0.0
    return total + part


def _find_names(text: str) -> Iterator[tuple[Span, Parts]]:
    """Yield the names of a text with the keys of their words, in order.

    A name is a capitalised word inside a sentence, or an acronym. At the start of a sentence such a
    word is any word, unless the sentence is nothing but a name.
    """
    edges: tuple[int, int] | None = None  # first and last letter or digit of the text
    for match in _NAMES.finditer(text):
        start, end = match.span()
        words = [(m[0], start + m.start()) for m in _NAME_WORDS.finditer(match[0])]
        at_start = bool(words and _STARTS.search(text[max(0, start - _BEFORE) : start]))
        if at_start and not _is_acronym(words[0][0]):
            if len(words) > 1 and edges is None:
                known = [place for place, letter in enumerate(text) if letter.isalnum()]
                edges = known[0], known[-1]
            alone = edges is not None and start <= edges[0] and edges[1] < end
            words = words if len(words) > 1 and alone else words[1:]
        while words and not _is_acronym(words[0][0]):
            if words[0][0].casefold().replace("’", "'") not in _NO_NAMES:
                break
            words = words[1:]
        parts = tuple(
            key for word, _ in words for part in word.split("-") if (key := name_key(part))
        )
        if parts:
            last, at = words[-1]
            yield Span(words[0][1], at + len(last)), parts


def _is_acronym(word: str) -> bool:
    return sum(map(str.isupper, word)) > 1 and word.upper() == word


@lru_cache(maxsize=10_000)  # a text repeats its words
def name_key(word: str) -> str:
    """Return the form in which a name's word is compared: lower case, no accents or possessive.

    Endings after the fifth letter are left out: "Canada" and "Canadians" are equal, "Austria" and
    "Australia" are not.
    """
    letters = unicodedata.normalize("NFKD", _POSSESSIVE.sub("", word.casefold()))
    return _INFLECTION.sub("", "".join(filter(str.isalnum, letters)))
