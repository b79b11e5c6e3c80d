"""Values in a text: numbers, dates and times, quantities with a unit, and names.

Equal values are equal in any form: 1,000 and "one thousand", 5 km and 5,000 m, "a quarter of" and
25 %, "15 Jan 1967" and 1967-01-15, "6 pm" and 18:00. List marks, citation marks and the numbers of
steps and passages are positions, not facts. The rules are for English.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, NamedTuple

from trivet.data.names import Parts, find_names, name_key
from trivet.data.value_words import (
    CURRENCIES,
    DAYS,
    DECADES,
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


class Amount(NamedTuple):
    """A magnitude in the base unit of its dimension."""

    dimension: str  # "" for a bare number
    magnitude: float  # in the dimension's base unit
    step: float  # value of the last digit as written, in the base unit
    number: float  # as written
    factor: float = 1.0  # of the unit to the base unit
    rough: bool = False  # rounded, as words such as "about" and "million" say
    sign: int = 0  # -1 or 1 if it has one; an amount without one may be told of a rise or a fall


@dataclass(frozen=True, slots=True)
class Value:
    """A value and its place."""

    kind: ValueKind
    span: Span
    amount: Amount | None = None  # magnitude of a number or quantity
    # those of a date or clock time, such as ``year 1967``, ``day 1-15`` and ``minute 1080`` (or
    # ``minute 360|1080``, of either half of the day), or the words of a name; all must be found
    parts: Parts = ()
    other: Amount | None = None  # second reading, as 16181 of "16.181"


_UNIT = "|".join(re.escape(word) for word in sorted(UNIT_WORDS, key=len, reverse=True))
_MONTH = rf"(?:{'|'.join(sorted(MONTH_NUMBERS, key=len, reverse=True))})"
_DAY, _YEAR = r"(?:[0-3]?\d)(?:st|nd|rd|th)?", r"[12]\d{3}"
_HOURS = ONES[1:13]
_HALF_OF_DAY = r"[ap]\.m\.|[ap]m\b|in\sthe\s(?:morning|afternoon|evening)\b|at\snight\b"
# Quarters, fiscal years, decades without their century, and half past six; seldom in a text.
_RARE = ("quarter", "half past", "0s", "ties", "fy", "q1", "q2", "q3", "q4")  # one is in each
_RARE_TIME = re.compile(
    r"\bQ(?P<q>[1-4])\b|\b(?P<nth>first|second|third|fourth|1st|2nd|3rd|4th)[\s-]quarter\b"
    r"|\bFY\s?['’]?(?P<fiscal>20\d\d|\d\d)\b|(?:(?<=\bthe\s)|(?<=['’]))(?P<tens>[2-9]0)s\b"
    rf"|\b(?P<ties>{'|'.join(DECADES)})\b"
    rf"|\b(?P<share>half|quarter)\s(?P<way>past|to)\s(?P<at>1?\d|{'|'.join(_HOURS)})\b"
    rf"(?:\s(?P<late>{_HALF_OF_DAY}))?",
    re.IGNORECASE,
)
# The first characters are tested at once, else every alternative would be tried everywhere.
_TIME = re.compile(
    rf"\b(?=[\d{''.join({word[0] for word in (*MONTH_NUMBERS, *DAYS, *_HOURS)})}])(?:"
    rf"(?P<iso>{_YEAR}-[01]\d-[0-3]\d)\b"
    rf"|(?P<slashed>[0-3]?\d[/.][0-3]?\d[/.]{_YEAR})\b"
    rf"|(?P<day1>{_DAY})\s(?:of\s)?(?P<month1>{_MONTH})\b(?:\.?,?\s(?P<year1>{_YEAR})\b)?"
    rf"|(?P<month2>{_MONTH})\b\.?\s(?P<day2>{_DAY})(?!\d)(?:,?\s(?P<year2>{_YEAR})\b)?"
    rf"|(?P<month3>{_MONTH})\b\.?,?\s(?:of\s)?(?P<year3>{_YEAR})\b"
    rf"|(?P<hour>[0-2]?\d)(?:[:.](?P<minute>[0-5]\d))?(?:\s?(?P<half>{_HALF_OF_DAY})"
    r"|(?=\s?(?:[-–]|to|and)\s?(?P<end>[0-2]?\d)(?:[:.][0-5]\d)?\s?(?P<end_half>[ap]\.?m\b)))"
    r"|(?P<hour24>[01]?\d|2[0-3])[:h](?P<minute24>[0-5]\d)(?![\d:])"
    rf"|(?P<clock>1?\d|{'|'.join(_HOURS)})\so['’]clock\b"
    r"|(?P<noon>noon|midnight)\b"
    r"|(?P<decade>[12]\d\d0)s\b"
    rf"|(?<![\w.,$€£%-])(?P<year>1[0-9]{{3}}|20\d\d)(?![\w%]|[.,]\d|\s(?:{_UNIT})\b)"
    r"(?:[-–](?P<until>\d\d)(?![\w-]))?"
    rf"|(?P<weekday>{'|'.join(DAYS)})\b)",
    re.IGNORECASE,
)
_WORD = rf"(?:{'|'.join(sorted(NUMBER_WORDS, key=len, reverse=True))})"
_ONE = rf"(?:(?:{'|'.join(TENS)})[\s-](?:{'|'.join(ONES[1:10])})|{_WORD})\b"  # below a hundred
_LARGE = r"(?:dozen|hundred|thousand|million|billion|trillion)\b"
_WORDS = rf"(?:{_ONE}|a(?=\s{_LARGE}))(?:(?:[\s-]{_LARGE})+(?:\s(?:and\s)?{_ONE})?)*"
_SCALE = (
    r"(?:hundred|thousand|million|billion|trillion|lakh|crore|[mb]n|tn|k(?![\w'])"
    r"|(?-i:MM|[MB])(?![\w'/²]|\.\w))"
)
_SURE = rf"(?(sign)|(?=\s?(?:{_UNIT}|{_SCALE})(?![\w'])))"  # else it may be two numbers
_FIGURE = (  # in groups, as in India, as in Europe; with spaces, with a decimal comma, or plain
    r"\d{1,3}(?:[,'’\u00a0\u2009\u202f]\d{3})+(?:\.\d{1,9})?|\d{1,2}(?:,\d\d)+,\d{3}"
    rf"|\d{{1,3}}(?:\.\d{{3}})+,\d{{1,9}}|\d{{1,3}}(?:\s\d{{3}})+{_SURE}"
    rf"|\d{{1,18}},\d{{1,2}}{_SURE}|\d{{1,18}}(?:\.\d{{1,9}})?"
)
_POWER = r"\s?[\u00d7x*·]\s?10(?:\^[-\u2212]?\d{1,2}|[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3})|e[-+]?\d{1,2}\b"
_EXPONENTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻\u2212", "0123456789--")
_VULGAR = rf"[{''.join(VULGAR)}]"
_OVER = r"(?<![\w.,/])(?:1/[2-8]|2/3|3/[48]|[57]/8)(?![\d/])"  # "4/5" is rather a mark
_HALF = r"\sand\sa\s(?:half|quarter)\b"
_SIGN = "|".join(re.escape(sign) for sign in sorted(CURRENCIES, key=len, reverse=True))
_NAMED = r"(?:percentage\spoint|hour|minute|day|week|month|year|decade|century|mile|kilo)"
_AMOUNT = re.compile(
    rf"(?=[\d{''.join(VULGAR)}]|{_SIGN})"
    rf"(?:(?P<alone>{_VULGAR}|{_OVER})(?:[\s-]{{0,6}}(?P<unit4>{_UNIT})(?![\w']))?|"
    rf"(?:(?P<sign>{_SIGN})\s{{0,6}})?(?<![\w.])(?<!\d,)(?P<figure>{_FIGURE})(?P<power>{_POWER})?"
    rf"(?P<ordinal>st|nd|rd|th)?"
    rf"(?P<vulgar>{_VULGAR}|[\s-]{_OVER}|{_HALF})?(?![.,]?\d)"
    rf"(?:[\s-]{{0,6}}(?P<scale>{_SCALE}))?(?:[\s-]{{0,6}}(?P<unit>{_UNIT})(?![\w']))?)"
    rf"|\b(?=[a{''.join({word[0] for word in (*NUMBER_WORDS, *FRACTIONS, *ORDINALS)})}])(?:"
    r"(?:(?P<count>a|one|two|three|four)[\s-])?(?P<fraction>half|thirds?|quarters?|fifths|tenths)"
    rf"\b(?:\s(?:of\s)?an?\s(?P<unit5>{_NAMED})\b|(?=\s(?:of|the|a|an|all)\b))"
    rf"|(?P<article>an?)\s(?P<unit3>{_NAMED})\b"
    rf"(?P<half>{_HALF})?|(?P<multiple>twice|double|triple)(?=\s(?:as|the|that)\b)"
    rf"|(?P<rank>{'|'.join(sorted(ORDINALS, key=len, reverse=True))})\b"
    rf"|(?P<words>{_WORDS})(?P<part>{_HALF})?(?:[\s-](?P<unit2>{_UNIT})(?![\w']))?\b)",
    re.IGNORECASE,
)
# A text without any of these has no time or amount; most sentences need no further look.
_DIGIT = re.compile(rf"[\d{''.join(VULGAR)}]")
_LETTERS = re.compile("[a-z]+")
_TIME_WORDS = frozenset((*DAYS, "noon", "midnight", "clock"))
_AMOUNT_WORDS = frozenset((*NUMBER_WORDS, *FRACTIONS, *ORDINALS, *SCALES)).union(
    ("hour", "minute", "day", "week", "month", "year", "decade", "century", "mile", "kilo"),
    ("percentage", "twice", "double", "triple"),
)
_DOTS = str.maketrans("İı", "Ii")  # an "i" for patterns that ignore case, but not for the tables
# The number of a list item, a passage or a step is a position, not a fact.
_POSITION_BEFORE = re.compile(
    r"(?:(?:^|\n)[\s*#>(\[-]*"
    r"|\b(?:passage|context|document|source|reference|step|figure|fig|table|item)"
    r"s?[\s:#.]*(?:\d+(?:,| and|, and|-) ?)*|[.:;!?]\s+)$|[\[(]$",
    re.IGNORECASE,
)
_POSITION_AFTER = re.compile(r"\s?[.):\]]+(?:\s|\*|$)|\s{1,300}\]")
_ROUNDED = re.compile(
    r"(?:\b(?:about|around|approximately|approx\.?|roughly|nearly|almost|some|over|under|more than"
    r"|less than|at least|up to|close to|circa|ca\.)|[~≈<>])\s*$",
    re.IGNORECASE,
)
_THOUSANDS = re.compile(r"[1-9]\d{0,2}\.\d{3}")
_RATE = re.compile(rf"(?:[\d%$€£¥₹]|\b(?:once|twice|times|{_UNIT}))\s*$", re.IGNORECASE)
_NTH = dict(zip(("first", "second", "third", "fourth"), ONES[1:5], strict=True))
_SIGNS = ("-", "+", "\u2212", "–", "minus ", "Minus ")
_SIGNED = re.compile(r"(?:(?<![\w)\]])[-+\u2212–]|\b[mM]inus\s)$")
_BEFORE = 40  # characters before a number that are looked at
_CODE = re.compile(r"(?<![\w.])v?\d+(?:\.\d+){2,}(?!\.?\d)")  # a version or an address


def find_values(text: str, names: bool = True) -> list[Value]:
    """Return the values of a text, in order and without overlap; marks of Markdown are not content.

    Dates and names are not numbers. Without ``names`` none are looked for.
    """
    if ANY_MARK.search(text):
        text = blank_markup(text)
    plain = text if text.isascii() else text.translate(_DOTS)
    digits = _DIGIT.search(plain)
    words = () if digits else _LETTERS.findall(plain.casefold())
    taken = bytearray(len(text))
    values: list[Value] = []
    lower = plain.lower()
    rare = _RARE_TIME.finditer(plain) if any(map(lower.__contains__, _RARE)) else ()
    timely = digits or not _TIME_WORDS.isdisjoint(words)
    times = [(match, _rare_parts(match)) for match in rare]
    times += [(match, _time_parts(match)) for match in (_TIME.finditer(plain) if timely else ())]
    for match, parts in times:
        start, end = match.span()
        if not any(taken[start:end]):
            taken[start:end] = b"\1" * (end - start)
            values.append(Value("time", Span(start, end), parts=parts))
    if digits or not _AMOUNT_WORDS.isdisjoint(words):
        for match in _AMOUNT.finditer(plain):
            start, end = match.span()
            amount = None if any(taken[start:end]) else _amount(match)
            if amount is not None:
                taken[start:end] = b"\1" * (end - start)
                kind: ValueKind = "number" if amount.dimension in ("", "ratio") else "quantity"
                other = (
                    _in_thousands(amount) if _THOUSANDS.fullmatch(match["figure"] or "") else None
                )
                values.append(Value(kind, Span(start, end), amount, other=other))
    codes = _CODE.finditer(text) if names and digits and text.count(".") > 1 else ()
    named = [(Span(*m.span()), (name_key(m[0]),)) for m in codes]
    for span, parts in (*named, *(find_names(text) if names else ())):
        if not any(taken[span.start : span.end]):
            values.append(Value("name", span, parts=parts))
    return sorted(values, key=attrgetter("span.start"))


def _time_parts(match: re.Match[str]) -> Parts:
    """Return the parts of a date or clock time: year, month and day, weekday, minute of the day."""
    if match["hour"]:
        hour, half = int(match["hour"]) % 12, match["half"] or match["end_half"]
        minute = 60 * hour + int(match["minute"] or 0)
        if match["end"] and int(match["end"]) % 12 < hour:  # "10-2 pm" may begin in the morning
            return (either_half(minute),)
        return (f"minute {minute + 720 * _is_late(half)}",)
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
        if int(first) <= 12 and int(second) <= 12:
            both = f"day {int(first)}-{int(second)}|{int(second)}-{int(first)}"
            return (f"year {int(year)}", both)
    else:
        number = next(number for number in "123" if match[f"month{number}"])
        year, day = match[f"year{number}"] or "", "" if number == "3" else match[f"day{number}"]
        month = str(MONTH_NUMBERS[match[f"month{number}"].casefold()])
    day = re.sub(r"\D", "", day)
    of_year = f"day {int(month)}-{int(day)}" if day else f"month {int(month)}"
    return (f"year {int(year)}", of_year) if year else (of_year,)


def _rare_parts(match: re.Match[str]) -> Parts:
    """Return the parts of a time that ``_RARE_TIME`` reads."""
    if match["at"]:
        past = {"half": 30, "quarter": 15}[match["share"].lower()]
        at, half = match["at"].casefold(), match["late"]
        minute = 60 * int(NUMBER_WORDS.get(at) or at)
        minute = (minute + (past if match["way"].lower() == "past" else -past)) % 720
        return (f"minute {minute + 720 * _is_late(half)}" if half else either_half(minute),)
    if match["q"] or match["nth"]:
        nth = (match["nth"] or match["q"]).casefold()
        return (f"quarter {nth[0] if nth[0].isdigit() else ONES.index(_NTH[nth])}",)
    if match["fiscal"]:
        return (f"year {match['fiscal'] if len(match['fiscal']) == 4 else '20' + match['fiscal']}",)
    tens = match["tens"] or match["ties"]
    digit = tens[0] if tens[0].isdigit() else str(DECADES.index(tens.casefold()) + 2)
    return ("decade " + "|".join(f"{century}{digit}" for century in (18, 19, 20)),)


def _is_late(half: str) -> bool:
    return not half.lower().startswith(("a.m", "am", "in the m"))


def either_half(minute: int) -> str:
    """Return the part of a time that may be of either half of the day."""
    return f"minute {minute % 720}|{minute % 720 + 720}"


def _amount(match: re.Match[str]) -> Amount | None:
    """Return the magnitude of a number; ``None`` for positions and pronouns."""
    unit, step, rough, sign = None, 1.0, False, 0
    if match["figure"]:
        if not match["sign"] and _is_position(match):
            return None
        number, step = _read_figure(match["figure"])
        number += _part(match["vulgar"])
        if match["power"]:
            power = re.split(r"10\^?|e", match["power"].casefold())[1].translate(_EXPONENTS)
            number, step = number * 10.0 ** int(power), step * 10.0 ** int(power)
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
        if before.endswith(_SIGNS) and (signed := _SIGNED.search(before)):
            sign = 1 if signed[0] == "+" else -1
            if unit is not None and unit.dimension == DEGREES:
                number *= sign
        rough = step > 1 or bool(_ROUNDED.search(before))
    elif match["words"]:
        number = _from_words(match["words"]) + _part(match["part"])
        unit = unit_of(match["unit2"]) if match["unit2"] else None
        rough = bool(re.search(r"[mbtr]illion", match["words"], re.IGNORECASE))
        step = 1e6 if rough else 1.0
        if number <= 2 and unit is None:  # "one" and "the two" are pronouns
            return None
    elif match["article"]:
        if _RATE.search(match.string[max(0, match.start() - _BEFORE) : match.start()]):
            return None  # "four euros an hour"
        number, unit = 1.0 + _part(match["half"]), unit_of(match["unit3"])
    elif match["multiple"]:
        number = 3.0 if match["multiple"].casefold() == "triple" else 2.0
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
        return Amount("", number, step, number, 1.0, rough, sign)
    magnitude = number * unit.factor + unit.offset
    return Amount(unit.dimension, magnitude, step * unit.factor, number, unit.factor, rough, sign)


def _read_figure(figure: str) -> tuple[float, float]:
    """Return the number that a figure writes, and the value of its last digit."""
    digits = re.sub(r"[\s'’]", "", figure)
    if re.fullmatch(r"\d+(?:\.\d{3})*,\d{1,2}|\d{1,3}(?:\.\d{3})+,\d+", digits):
        digits = digits.replace(".", "").replace(",", ".")
    digits = digits.replace(",", "")
    return float(digits), 10.0 ** -len(digits.partition(".")[2])


def _in_thousands(amount: Amount) -> Amount:
    """Return an amount with a point that divides thousands."""
    magnitude, step, number = (1000 * part for part in amount[1:4])
    return amount._replace(magnitude=magnitude, step=step, number=number)


def _is_position(match: re.Match[str]) -> bool:
    start, end = match.span("figure")
    before = _POSITION_BEFORE.search(match.string[max(0, start - _BEFORE) : start])
    if before is None:
        return False
    if before[0][-1:] in "([" and len(match["figure"]) > 2:
        return False  # an amount in brackets
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
