"""Supported answers and their unsupported copies, by other rules than those of training's twins.

An answer is one sentence: of the contexts ("copied"), or of a response, where the labels call it
supported ("answered"). In its copy one number, date, name, unit or negation is wrong, or the
passages with its evidence are missing. A wrong number, date or name is one of another sentence of
the contexts. For units and negations pairs are preferred in which the contexts hold as many words
of the copy as of the answer, so that counting words does not find the error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from trivet.data.sentences import split_sentences
from trivet.records import LabelledExample, RagExample, Span

KINDS = ("number", "date", "name", "unit", "negation", "evidence")
"""The kinds of errors."""

_VALUES = {
    "number": re.compile(r"(?<=[a-z,] )\d[\d,]*(?:\.\d+)?(?= [a-z])"),
    "date": re.compile(r"(?<=\b[oi]n )(?:[A-Z][a-z]{2,8} )?(?:\d{1,2}, )?[12]\d{3}\b"),
    "name": re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}(?: [A-Z][a-z]+)+"),
}

# Units of one dimension, alike in number, none under two names; the next one is easily confused.
_UNITS = (
    "second|minute|hour|day|week|month|year|decade",
    "seconds|minutes|hours|days|weeks|months|years|decades",
    "inch|foot|yard|meter|kilometer|mile",
    "inches|feet|yards|meters|kilometers|miles|centimeters|millimeters",
    "metres|kilometres|centimetres|millimetres",
    "mm|cm|m|km",
    "mcg|mg|g|kg",
    "grams|kilograms|ounces|pounds|tons",
    "teaspoon|tablespoon|cup",
    "teaspoons|tablespoons|cups|pints|quarts|gallons",
    "thousand|million|billion|trillion",
    "kB|MB|GB|TB",
    "dollars|euros|cents",
)
# Zero is the same in every unit.
_AMOUNT = (
    r"(?<![\w.,/])(?!0+(?:\.0+)?[ -])"
    r"(\d[\d,]*(?:\.\d+)?|two|three|four|five|six|seven|eight|nine|ten)([ -])"
)
_QUANTITIES = [re.compile(rf"{_AMOUNT}({units})\b") for units in _UNITS]

_OPPOSITES = (
    ("increase", "decrease"),
    ("increases", "decreases"),
    ("increased", "decreased"),
    ("increasing", "decreasing"),
    ("higher", "lower"),
    ("high", "low"),
    ("more than", "less than"),
    ("at least", "at most"),
    ("before", "after"),
    ("always", "never"),
    ("positive", "negative"),
    ("maximum", "minimum"),
    ("largest", "smallest"),
    ("larger", "smaller"),
    ("better", "worse"),
    ("best", "worst"),
    ("early", "late"),
    ("inside", "outside"),
    ("active", "inactive"),
    ("possible", "impossible"),
    ("effective", "ineffective"),
    ("enabled", "disabled"),
    ("rise", "fall"),
    ("rose", "fell"),
)
_OPPOSITE = {a: b for pair in _OPPOSITES for a, b in (pair, pair[::-1])}
# Not after "a" or "an", which may not fit the opposite.
_HAS_OPPOSITE = re.compile(rf"(?<!\ba )(?<!\ban )(?<![\w-])(?:{'|'.join(_OPPOSITE)})(?![\w-])")
_PERFECT = re.compile(r"\b(?:has|have|had)(?= (?:been|[a-z]+ed)\b)")
# The group is what stays of a negation that is removed.
_REMOVABLE = re.compile(
    r"\b(?:(has|have|had) not|(is|are|was|were|do|does|did|has|have|had|could)n['\u2019]t"
    r"|(can)(?:not|['\u2019]t)|(with)out|(?:never|no longer) )\b"
)
_NEGATION = re.compile(
    r"\b(?:not|no|none|nor|neither|never|cannot|without)\b|n['\u2019]t\b", re.IGNORECASE
)
_OPEN = re.compile(r"\?|\b(?:whether|if|unless|may|might|or)\b", re.IGNORECASE)

_WORD = re.compile(r"\w+")
_SHORT = 3  # characters of a word that says little
_FEWEST_WORDS = 4  # longer words of an answer whose evidence is removed
_REPEATS = 0.5  # share of them in one sentence from which its passage may support the answer


class Pair(NamedTuple):
    """A supported answer, and a copy that is not."""

    group: str  # source document
    clean: RagExample
    changed: RagExample


class _Answer(NamedTuple):
    """A supported sentence, and the places of the passages that support it, if they are known."""

    text: str
    passages: frozenset[int]


def pairs(rows: Sequence[LabelledExample], kind: str, copied: bool, most: int) -> list[Pair]:
    """Return at most ``most`` pairs of a kind, one a row, in the rows' order."""
    chosen = []
    for number, row in enumerate(rows):
        random = np.random.default_rng(number)
        made = list(_pairs_of(row, kind, copied))
        if kind in ("unit", "negation"):
            hard = [pair for pair in made if share_held(pair.changed) >= share_held(pair.clean)]
            made = hard or made
        if made:
            chosen.append(made[int(random.integers(len(made)))])
        if len(chosen) == most:
            break
    return chosen


def share_held(example: RagExample) -> float:
    """Return the share of a response's distinct words that the contexts hold; 0 for no words."""
    words = set(_WORD.findall(example.response.lower()))
    held = {word for text in example.contexts for word in _WORD.findall(text.lower())}
    return len(words & held) / len(words) if words else 0.0


def _pairs_of(row: LabelledExample, kind: str, copied: bool) -> Iterator[Pair]:
    example = row.example
    sources = [
        text[span.start : span.end] for text in example.contexts for span in split_sentences(text)
    ]
    document = f"{row.source} {row.group}"  # two sources may name theirs alike
    for answer in _copied_sentences(row, sources) if copied else _supported_sentences(row):
        clean = RagExample(example.question, example.contexts, answer.text)
        if kind == "evidence":
            rest = _without_evidence(answer, example.contexts)
            if rest:
                yield Pair(document, clean, replace(clean, contexts=rest))
            continue
        if kind == "unit":
            wrong = _wrong_units(answer.text, sources)
        elif kind == "negation":
            wrong = _negations(answer.text)
        else:
            wrong = _wrong_values(answer.text, sources, _VALUES[kind])
        for response in wrong:
            yield Pair(document, clean, replace(clean, response=response))


def _copied_sentences(row: LabelledExample, sources: Sequence[str]) -> list[_Answer]:
    contexts = list(enumerate(row.example.contexts))
    return [
        _Answer(source, frozenset(index for index, text in contexts if source in text))
        for source in sources
    ]


def _supported_sentences(row: LabelledExample) -> list[_Answer]:
    text, labels = row.example.response, row.labels
    spans = row.example.response_sentences or split_sentences(text)
    if labels.unsupported is None:
        return []
    wrong = (*labels.unsupported, *labels.unclear)
    return [
        _Answer(
            text[span.start : span.end],
            frozenset(
                span_.context
                for proof in labels.evidence or ()
                if _meet(proof.response, span)
                for span_ in proof.contexts
            ),
        )
        for span in spans
        if not any(_meet(other, span) for other in wrong)
    ]


def _meet(span: Span, other: Span) -> bool:
    return span.start < other.end and other.start < span.end


def _wrong_values(sentence: str, sources: Sequence[str], pattern: re.Pattern[str]) -> Iterator[str]:
    """Yield the sentence with a value of another sentence in place of each of its own."""
    for match in pattern.finditer(sentence):
        if not any(match[0] in source for source in sources):
            continue
        wrong = [
            other[0]
            for source in sources
            if match[0] not in source
            for other in pattern.finditer(source)
            if other[0] not in sentence
        ]
        if wrong:
            yield f"{sentence[: match.start()]}{wrong[0]}{sentence[match.end() :]}"


def _wrong_units(sentence: str, sources: Sequence[str]) -> Iterator[str]:
    """Yield the sentence with another unit for each quantity of the contexts.

    It is a unit of the contexts, or else the next one of the dimension.
    """
    for units, pattern in zip(_UNITS, _QUANTITIES, strict=True):
        listed = units.split("|")
        named = {other[3] for source in sources for other in pattern.finditer(source)}
        for match in pattern.finditer(sentence):
            index = listed.index(match[3])
            others = listed[index + 1 :] + listed[:index]
            true = [
                unit for unit in listed if any(_holds(source, match, unit) for source in sources)
            ]
            fit = [unit for unit in others if unit not in true]
            if match[3] in true and fit:
                new = next((unit for unit in fit if unit in named), fit[0])
                yield f"{sentence[: match.start(3)]}{new}{sentence[match.end(3) :]}"


def _holds(source: str, quantity: re.Match[str], unit: str) -> bool:
    """Tell whether a sentence has the number of a quantity with a unit, in the singular or not."""
    number = re.escape(quantity[1])
    return bool(re.search(rf"(?<![\w.,/]){number}[ -]?{unit.removesuffix('s')}s?\b", source))


def _negations(sentence: str) -> Iterator[str]:
    """Yield the sentence without its negation, or with a "never" or an opposite if it has none.

    A sentence that may not assert what it says, or has several negations, is left out.
    """
    if _OPEN.search(sentence):
        return
    negations = len(_NEGATION.findall(sentence))
    if negations == 1:
        for match in _REMOVABLE.finditer(sentence):
            kept = next(filter(None, match.groups()), "")
            yield f"{sentence[: match.start()]}{kept}{sentence[match.end() :]}"
    if negations > 0:
        return
    for match in _PERFECT.finditer(sentence):
        yield f"{sentence[: match.end()]} never{sentence[match.end() :]}"
    for match in _HAS_OPPOSITE.finditer(sentence):
        new = _OPPOSITE[match[0]]
        if new not in sentence:
            yield f"{sentence[: match.start()]}{new}{sentence[match.end() :]}"


def _without_evidence(answer: _Answer, contexts: Sequence[str]) -> tuple[str, ...]:
    """Return the passages that do not support an answer; none if its evidence is not known.

    Whole passages are left out: those with its evidence, and those of which one sentence has many
    of its words.
    """
    claim = _long_words(answer.text)
    if not answer.passages or len(claim) < _FEWEST_WORDS:
        return ()
    return tuple(
        text
        for index, text in enumerate(contexts)
        if index not in answer.passages
        and not any(
            len(claim & _long_words(text[span.start : span.end])) >= _REPEATS * len(claim)
            for span in split_sentences(text)
        )
    )


def _long_words(text: str) -> set[str]:
    words = _WORD.findall(text.lower())
    return {word for word in words if len(word) > _SHORT or word.isdecimal()}
