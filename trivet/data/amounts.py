"""Numbers in a text, with or without a unit, as magnitudes that can be compared.

1,000 and "one thousand" are equal, 5 km and 5,000 m, "a quarter of" and 25 %. List marks, citation
marks and the numbers of steps and passages are positions, not facts. The rules are for English.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from trivet.data.units import CURRENCIES, UNIT_WORDS, Unit, unit_of
from trivet.records import Span


class Amount(NamedTuple):
    """A magnitude in the base unit of its dimension."""

    dimension: str  # "" for a bare number
    magnitude: float  # in the dimension's base unit
    step: float  # value of the last digit as written, in the base unit
    number: float  # as written
    factor: float = 1.0  # of the unit to the base unit
    rough: bool = False  # rounded, as words such as "about" and "million" say


_ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SCALES = {
    **{"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12},
    **{"k": 1e3, "mn": 1e6, "bn": 1e9, "tn": 1e12},
}
_NUMBER_WORDS = {
    **{word: float(number) for number, word in enumerate(_ONES)},
    **{word: 10.0 * number for number, word in enumerate(_TENS, 2)},
    "dozen": 12.0,
}
_ORDINALS = {
    **{"third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9},
    **{"tenth": 10, "eleventh": 11, "twelfth": 12, "thirteenth": 13, "fourteenth": 14},
    **{"fifteenth": 15, "sixteenth": 16, "seventeenth": 17, "eighteenth": 18, "nineteenth": 19},
    "twentieth": 20,
}
_FRACTIONS = {
    **{"half": 1 / 2, "third": 1 / 3, "quarter": 1 / 4, "fifth": 1 / 5, "tenth": 1 / 10},
    **{"thirds": 1 / 3, "quarters": 1 / 4, "fifths": 1 / 5, "tenths": 1 / 10},
}
_VULGAR = {"½": 1 / 2, "⅓": 1 / 3, "⅔": 2 / 3, "¼": 1 / 4, "¾": 3 / 4, "⅕": 1 / 5, "⅛": 1 / 8}
_FIGURE = r"\d{1,3}(?:[,\u00a0\u202f]\d{3})+(?:\.\d{1,9})?|\d{1,18}(?:\.\d{1,9})?"
_WORD = rf"(?:{'|'.join(sorted(_NUMBER_WORDS, key=len, reverse=True))})"
_WORDS = rf"{_WORD}(?:(?:-|\s(?:and\s)?)(?:{_WORD}|hundred|thousand|million|billion))*"
_SCALE = r"(?:hundred|thousand|million|billion|trillion|[mb]n|tn|k(?![\w']))"
_SIGN = "|".join(re.escape(sign) for sign in sorted(CURRENCIES, key=len, reverse=True))
_UNIT = "|".join(re.escape(word) for word in sorted(UNIT_WORDS, key=len, reverse=True))


_NUMERIC = re.compile(
    rf"(?P<sign>{_SIGN})?\s{{0,6}}(?<![\w.,])(?P<figure>{_FIGURE})(?P<ordinal>st|nd|rd|th)?"
    rf"(?P<vulgar>[½⅓⅔¼¾⅕⅛])?(?![.,]?\d)"
    rf"(?:[\s-]{{0,6}}(?P<scale>{_SCALE}))?(?:[\s-]{{0,6}}(?P<unit>{_UNIT})(?![\w']))?"
    rf"|(?P<alone>[½⅓⅔¼¾⅕⅛])"
    r"|\b(?:(?P<count>a|one|two|three|four)[\s-])?(?P<fraction>half|thirds?|quarters?|fifths|tenths)"
    r"\b(?=\s(?:of|the|a|an|all)\b)"
    rf"|\b(?P<article>an?)\s(?P<unit3>hour|minute|day|week|month|year|decade|century|mile|kilo)\b"
    rf"|\b(?P<words>{_WORDS})(?:[\s-](?P<unit2>{_UNIT})(?![\w']))?\b"
    rf"|\b(?P<rank>{'|'.join(_ORDINALS)})\b",
    re.IGNORECASE,
)
# The number of a list item, a passage or a step is a position, not a fact.
_POSITION_BEFORE = re.compile(
    r"(?:(?:^|\n)[\s*#>(\[-]*"
    r"|\b(?:passage|context|document|source|reference|step|figure|fig|table|chapter|section|item)"
    r"s?[\s:#.]*(?:\d+(?:,| and|, and|-) ?)*|[.:;!?]\s+)$|[\[(]$",
    re.IGNORECASE,
)
_POSITION_AFTER = re.compile(r"\s?[.):\]]+(?:\s|\*|$)")
_ROUNDED = re.compile(
    r"(?:\b(?:about|around|approximately|approx\.?|roughly|nearly|almost|some|over|under|more than"
    r"|less than|at least|up to|close to|circa|ca\.)|[~≈<>])\s*$",
    re.IGNORECASE,
)
_BEFORE = 40  # characters before a number in which such a word is looked for


def find_amounts(text: str) -> Iterator[tuple[Span, Amount]]:
    """Yield the numbers of a text with their magnitude, in order."""
    for match in _NUMERIC.finditer(text):
        start = match.start() + len(match[0]) - len(match[0].lstrip())
        span = Span(start, match.end())
        if match["figure"]:
            if match["sign"] or not _is_position(text, match):
                yield span, _figure(match)
        elif match["alone"]:
            yield span, _share(_VULGAR[match["alone"]])
        elif match["article"]:
            yield span, _counted(1.0, 1.0, unit_of(match["unit3"]), False)
        elif match["words"]:
            number = _from_words(match["words"])
            unit = unit_of(match["unit2"]) if match["unit2"] else None
            rough = bool(re.search(r"[mbtr]illion", match["words"], re.IGNORECASE))
            if number > 2 or unit is not None:  # "one" and "the two" are pronouns
                yield span, _counted(number, 1e6 if rough else 1.0, unit, rough)
        elif match["fraction"]:
            count = _NUMBER_WORDS.get((match["count"] or "one").casefold(), 1.0)
            part = count * _FRACTIONS[match["fraction"].casefold()]
            yield span, _share(part)
        else:
            yield span, _counted(float(_ORDINALS[match["rank"].casefold()]), 1.0, None, False)


def _figure(match: re.Match[str]) -> Amount:
    """Return the magnitude of a number in digits."""
    digits = re.sub(r"[,\u00a0\u202f]", "", match["figure"])
    number, step = float(digits), 10.0 ** -len(digits.partition(".")[2])
    if match["vulgar"]:
        number += _VULGAR[match["vulgar"]]
    if match["scale"]:
        factor = _SCALES[match["scale"].casefold()]
        number, step = number * factor, step * factor
    unit = unit_of(match["unit"]) if match["unit"] else None
    if match["sign"]:
        millions = 1e6 if match["unit"] in ("m", "M") else 1.0
        number, step = number * millions, step * millions
        unit = Unit(CURRENCIES[match["sign"].upper()], 1.0)
    before = match.string[max(0, match.start() - _BEFORE) : match.start()]
    return _counted(number, step, unit, step > 1 or bool(_ROUNDED.search(before)))


def _counted(number: float, step: float, unit: Unit | None, rough: bool) -> Amount:
    """Return a number with or without a unit; ``step`` is the value of its last digit."""
    if unit is None:
        return Amount("", number, step, number, rough=rough)
    magnitude = number * unit.factor + unit.offset
    return Amount(unit.dimension, magnitude, step * unit.factor, number, unit.factor, rough)


def _share(part: float) -> Amount:
    return Amount("ratio", part, 0.01, part, rough=True)


def _from_words(text: str) -> float:
    """Return the number that words name: "one hundred and fifty" is 150."""
    total = part = 0.0
    for word in re.split(r"[\s-]+", text.casefold()):
        if word == "and":
            continue
        scale = _SCALES.get(word)
        if scale is None:
            part = part * (_NUMBER_WORDS[word] if word == "dozen" and part else 1) + (
                0 if word == "dozen" and part else _NUMBER_WORDS[word]
            )
        elif scale == 100:
            part = max(part, 1) * scale
        else:
            total, part = total + max(part, 1) * scale, 0.0
    return total + part


def _is_position(text: str, match: re.Match[str]) -> bool:
    start, end = match.start("figure"), match.end("figure")
    before = _POSITION_BEFORE.search(text[max(0, start - _BEFORE) : start])
    if before is None:
        return False
    # At the start of a text or sentence a number may be a fact: "330 metres."
    bare = not before[0].strip(" \t\n*#>([-.:;!?")
    return not bare or bool(_POSITION_AFTER.match(text, end))
