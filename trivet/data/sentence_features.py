"""Counted features of each response sentence, which support is weighed with.

A small encoder compares numbers and names poorly, and sees only one window. So two things are
counted before the pass: the words that a sentence shares with the contexts, and whether its values
stand in its sources, in other context sentences or nowhere. ``trivet calibrate`` learns what each
of them is worth.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from trivet.data.lexical_overlap import Overlaps
from trivet.data.names import name_key
from trivet.data.tokenization import FloatArray, TokenizedExample
from trivet.data.value_words import DEGREES, SCALES, unit_of
from trivet.data.values import VALUE_KINDS, Amount, Value, find_values
from trivet.data.written_forms import CITATION_MARK

ValueStatus = Literal["near", "elsewhere", "nowhere"]
QUESTION = -1
"""Number that the question has among the sentences of the contexts."""

FEATURES: tuple[str, ...] = (
    "lexical_overlap",  # of the sentence with the contexts (``data.lexical_overlap``), in [0, 1]
    "words_nowhere",  # share of its content words that no context has, in [0, 1]
    # number of its values of a kind that only another sentence has, or none; at most 2
    *(f"{kind}_{status}" for kind in VALUE_KINDS for status in ("elsewhere", "nowhere")),
)
"""Names of the features, in order. Support falls with all of them but the first."""
NEAR_SENTENCES = 3
"""Context sentences with which a response sentence shares most words: its sources."""

_MAX_VALUES = 2
_CONTENT_WORD = re.compile(r"[^\W\d_]{4,}")
_STEM = 6  # first letters, in which forms of a word are equal
_FUNCTION_WORDS = frozenset(
    """
    about above after again against also although always among another anything because been
    before being below between both cannot could does doing down during each either else even
    ever every everything from further generally have having here however into itself just like
    many more most much must neither never nothing often once only other others over rather same
    several should since some something such than that their theirs them then there therefore
    these they thing things this those through thus under until very were what when where
    whether which while whose will with within without would your yours according based context
    contexts document documents information mentioned passage passages provided question source
    sources text answer
    """.split()  # noqa: SIM905 (one word a line would be hard to read)
)
_WORDS = re.compile(r"[^\W_]+(?:['’.][^\W_]+)*")
_HYPHENATED = re.compile(r"[^\W_]+(?:-[^\W_]+)+")
_SMALL_WORDS = frozenset(("of", "the", "and", "de", "van", "von", "for"))
_POUND, _STERLING = unit_of("pound"), "pound sterling"  # "5 pounds" may be either
_SMALL_NUMBERS = {1.0: ("one", "first", "once"), 2.0: ("two", "second", "twice", "double")}
_CLOSE = 1e-6  # relative difference of equal magnitudes after a conversion


class FoundValue(NamedTuple):
    """A value of a response sentence, and where it stands."""

    value: Value  # its place is relative to the sentence
    status: ValueStatus  # in a sentence with which it shares most words, in others, or in none
    sentences: tuple[int, ...]  # context sentences that have it, or a part of it; rising


class _ValuePosition(NamedTuple):
    magnitude: float
    factor: float
    sentence: int
    sign: int = 0


class ContextValues:
    """The values and words of the contexts and the question of an example, and where they stand."""

    def __init__(self, contexts: Sequence[str], question: str, sentences: Iterable[str]) -> None:
        """Index the question and the sentences of the contexts, in order."""
        self.content_words = words_of(contexts)
        self.question = question
        self._texts = texts = (question, *sentences)
        self._known: dict[Amount, set[int]] = {}  # amounts that were looked up
        # Values of a sentence, which is read when it is first asked for.
        self.values = functools.cache(lambda number: find_values(texts[number - QUESTION]))
        # Figures of a table with the head "in thousands" may be told as they are or with the word.
        heads = ("thousand", "million", "billion")
        self._scales = [SCALES[w] for w in heads if any(f"in {w}s" in text for text in contexts)]

    @functools.cached_property
    def _initials(self) -> Mapping[str, set[int]]:
        """Sentences of the first letters of each name; only acronyms need it."""
        sentences_of: dict[str, set[int]] = defaultdict(set)
        for sentence in range(QUESTION, len(self._texts) + QUESTION):
            for value in self.values(sentence):
                if value.kind == "name" and len(value.parts) > 1:
                    sentences_of[_initials(value)].add(sentence)
        return sentences_of

    @functools.cached_property
    def _index(self) -> tuple[dict[str, list[_ValuePosition]], dict[str, set[int]]]:
        """Rising amounts by dimension ("written": numbers before units), and parts of times."""
        amounts: dict[str, list[_ValuePosition]] = defaultdict(list)
        parts: dict[str, set[int]] = defaultdict(set)
        for sentence, text in enumerate(self._texts, QUESTION):
            for value in find_values(text, names=False):  # names of all are slow to find
                if (amount := value.amount) is not None:
                    for read in filter(None, (amount, value.other)):
                        entry = _ValuePosition(read.magnitude, read.factor, sentence, read.sign)
                        amounts[amount.dimension].append(entry)
                    if amount.dimension:
                        entry = _ValuePosition(amount.number, 1.0, sentence, amount.sign)
                        amounts["written"].append(entry)
                for kind, number in _readings(value):
                    parts[f"{kind} {number}"].add(sentence)
                    if kind == "year":
                        amounts[""].append(_ValuePosition(float(number), 1.0, sentence))
                        parts[f"decade {number[:-1]}"].add(sentence)
                    elif kind == "day":
                        parts[f"month {number.partition('-')[0]}"].add(sentence)
        return {name: sorted(set(places)) for name, places in amounts.items()}, parts

    @functools.cached_property
    def _words(self) -> Mapping[str, set[int]]:
        """Sentences of each word, by its key; only names and small numbers need it."""
        sentences_of: dict[str, set[int]] = defaultdict(set)
        for sentence, text in enumerate(self._texts, QUESTION):
            for word in (*_WORDS.findall(text), *_HYPHENATED.findall(text)):
                sentences_of[name_key(word)].add(sentence)
        return sentences_of

    def find(self, value: Value, near: Iterable[int]) -> FoundValue:
        """Return whether the context sentences ``near``, others or none have a value."""
        # For each thing that the value needs, the sentences that have it.
        places: list[set[int]]
        if value.amount is not None:
            places = [self._with_amount(value.amount)]
            if value.other is not None:
                places = [places[0] | self._with_amount(value.other)]
        elif value.kind == "time":
            places = []
            for part in value.parts:
                kind, _, numbers = part.partition(" ")
                year = Amount("", float(numbers), 1.0, float(numbers)) if kind == "year" else None
                holders = set().union(
                    *(self._index[1].get(f"{kind} {n}", ()) for n in numbers.split("|"))
                )
                places.append(holders | self._with_amount(year) if year else holders)
        else:
            if len(value.parts) > 1:
                whole = self._words.get(_initials(value), set())
                whole = whole | self._words.get("".join(value.parts), set())
            else:
                whole = self._initials.get(value.parts[0], set())
            parts = [part for part in value.parts if part not in _SMALL_WORDS] or value.parts
            places = [self._words.get(part, set()) | whole for part in parts]
        status: ValueStatus = "nowhere"
        if all(places):
            beside = all(not sentences.isdisjoint(near) for sentences in places)
            status = "near" if beside else "elsewhere"
        return FoundValue(value, status, tuple(sorted(set().union(*places))))

    def _with_amount(self, wanted: Amount) -> set[int]:
        """Return the sentences with an amount, also with its number alone."""
        if wanted not in self._known:
            sentences = self._equal(wanted.dimension, wanted.magnitude, wanted.step, wanted)
            if wanted.dimension == "":
                sentences |= self._equal("written", wanted.magnitude, wanted.step, wanted)
                # Those words are not values of their own, since they are pronouns and adverbs too.
                for word in _SMALL_NUMBERS.get(wanted.number, ()):
                    sentences |= self._words.get(name_key(word), set())
            else:
                sentences |= self._equal("", wanted.number, wanted.step / wanted.factor, wanted)
                if wanted.dimension == _STERLING:
                    grams = wanted.magnitude * _POUND.factor
                    sentences |= self._equal("gram", grams, wanted.step * _POUND.factor, wanted)
                elif wanted.factor == _POUND.factor:
                    sentences |= self._equal(_STERLING, wanted.number, 1.0, wanted)
            for scale in self._scales:
                for dimension in {"", wanted.dimension}:
                    step = wanted.step / wanted.factor / scale
                    sentences |= self._equal(dimension, wanted.number / scale, step, wanted)
            self._known[wanted] = sentences
        return self._known[wanted]

    def _equal(self, dimension: str, magnitude: float, step: float, wanted: Amount) -> set[int]:
        places = self._index[0].get(dimension, [])
        far = max(abs(magnitude) * _CLOSE, 1e-9)
        # Half of the last digit, but "one hour" is not 45 minutes. Degrees have no true zero.
        most = step / 2 if dimension == DEGREES else min(step / 2, abs(magnitude) / 10)
        reach = max(far, (step / 2 if wanted.rough else most) * (1 + _CLOSE))
        sentences = set()
        for at in range(bisect_left(places, (magnitude - reach,)), len(places)):
            entry = places[at]
            if entry.magnitude > magnitude + reach:
                break
            converted = dimension not in ("", "written") and entry.factor != wanted.factor
            close = converted or wanted.rough or abs(entry.magnitude - magnitude) <= far
            if close and entry.sign * wanted.sign >= 0:
                sentences.add(entry.sentence)
        return sentences


def _readings(value: Value) -> Iterator[tuple[str, str]]:
    """Yield each reading of the parts of a time: its kind and number."""
    for part in value.parts if value.kind == "time" else ():
        kind, _, numbers = part.partition(" ")
        yield from ((kind, number) for number in numbers.split("|"))


def _initials(value: Value) -> str:
    """Return the first letters of a name's words but for small ones: "fbi"."""
    return "".join(part[0] for part in value.parts if part not in _SMALL_WORDS)


def content_words(text: str) -> list[str]:
    """Return the first six letters of the words of over three letters, but function words."""
    words = map(str.lower, _CONTENT_WORD.findall(text))
    return [word[:_STEM] for word in words if word not in _FUNCTION_WORDS]


def share_nowhere(text: str, known: frozenset[str]) -> float:
    """Return the share of a text's content words that are not among ``known``; 0 without any."""
    words = content_words(text)
    return sum(word not in known for word in words) / max(1, len(words))


def words_of(contexts: Sequence[str]) -> frozenset[str]:
    """Return the content words of some contexts."""
    words = set().union(*map(_CONTENT_WORD.findall, contexts))
    return frozenset(word[:_STEM] for word in map(str.lower, words) if word not in _FUNCTION_WORDS)


NO_CONTEXTS = ContextValues((), "", ())


def index_contexts(tokenized: TokenizedExample) -> ContextValues:
    """Index the values of the question and the context sentences of an example, and its words."""
    contexts, spans = tokenized.example.contexts, tokenized.context_sentence_spans
    texts = (contexts[span.context][span.start : span.end] for span in spans)
    return ContextValues(contexts, tokenized.example.question, texts)


def response_values(
    tokenized: TokenizedExample, overlaps: Overlaps, contexts: ContextValues
) -> tuple[tuple[FoundValue, ...], ...]:
    """Return the values of each response sentence, with their status.

    The overlaps of the example have ``NEAR_SENTENCES`` sources or more.
    """
    spans = tokenized.response_sentence_spans
    text = CITATION_MARK.sub(lambda mark: " " * len(mark[0]), tokenized.example.response)
    near = [set(row[:NEAR_SENTENCES].tolist()) for row in overlaps.sources]
    return tuple(
        tuple(contexts.find(value, nearest) for value in find_values(text[span.start : span.end]))
        for span, nearest in zip(spans, near, strict=True)
    )


def count_features(
    tokenized: TokenizedExample,
    overlaps: Overlaps,
    values: Sequence[Sequence[FoundValue]],
    contexts: ContextValues,
) -> FloatArray:
    """Return the features of each response sentence, as ``FEATURES`` has them. *Shape:* [S, F].

    Arguments as of ``response_values``, which returned ``values``.
    """
    spans = tokenized.response_sentence_spans
    features = np.zeros((len(spans), len(FEATURES)), dtype=np.float32)
    if not len(spans):
        return features
    text = tokenized.example.response
    first = np.unique(tokenized.response_sentence, return_index=True)[1]
    features[:, 0] = overlaps.context[first]
    for number, (span, sentence_values) in enumerate(zip(spans, values, strict=True)):
        features[number, 1] = share_nowhere(text[span.start : span.end], contexts.content_words)
        counts = Counter(f"{entry.value.kind}_{entry.status}" for entry in sentence_values)
        features[number, 2:] = [min(_MAX_VALUES, counts[name]) for name in FEATURES[2:]]
    return features
