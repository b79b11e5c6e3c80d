"""Where the values of a response stand in its contexts: near, elsewhere or nowhere."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from trivet.data.amounts import Amount
from trivet.data.names import name_key
from trivet.data.values import Value, find_values

ValueStatus = Literal["near", "elsewhere", "nowhere"]
QUESTION = -1
"""Number that the question has among the sentences of the contexts."""

_WORDS = re.compile(r"[^\W_]+(?:['’.][^\W_]+)*")
_CLOSE = 1e-6  # relative difference of equal magnitudes after a conversion


class _Place(NamedTuple):
    magnitude: float
    factor: float
    sentence: int


@dataclass
class ContextValues:
    """The values and words of the contexts and the question, and where they stand."""

    # by dimension, rising; "" has bare numbers and years, "written" the numbers before units
    amounts: dict[str, list[_Place]] = field(default_factory=lambda: defaultdict(list))
    parts: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    words: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    initials: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    known: dict[Amount, set[int]] = field(default_factory=dict)  # amounts that were looked up
    content_words: frozenset[str] = frozenset()  # of the contexts (``data.sentence_features``)

    @classmethod
    def of(cls, question: str, sentences: Iterable[str]) -> ContextValues:
        """Index the values of the question and of the context sentences, in order."""
        found = cls()
        found._add(question, QUESTION)
        for number, text in enumerate(sentences):
            found._add(text, number)
        for dimension, places in found.amounts.items():
            found.amounts[dimension] = sorted(set(places))
        return found

    def _add(self, text: str, sentence: int) -> None:
        for match in _WORDS.finditer(text):
            self.words[name_key(match[0])].add(sentence)
        for value in find_values(text):
            if (amount := value.amount) is not None:
                own = _Place(amount.magnitude, amount.factor, sentence)
                self.amounts[amount.dimension].append(own)
                if amount.dimension:
                    self.amounts["written"].append(_Place(amount.number, 1.0, sentence))
            elif value.kind == "name" and len(value.parts) > 1:
                self.initials["".join(part[0] for part in value.parts)].add(sentence)
            elif value.kind == "time":
                for part in value.parts:
                    self._add_part(part, sentence)

    def _add_part(self, part: str, sentence: int) -> None:
        self.parts[part].add(sentence)
        kind, _, number = part.partition(" ")
        if kind == "year":
            self.amounts[""].append(_Place(float(number), 1.0, sentence))
            self.parts[f"decade {number[:-1]}0"].add(sentence)
        elif kind == "day":
            self.parts[f"month {number.partition('-')[0]}"].add(sentence)

    def sentences_of(self, value: Value) -> list[set[int]]:
        """Return for each thing that a value needs the sentences that have it."""
        if (amount := value.amount) is not None:
            if amount not in self.known:
                self.known[amount] = self._with_amount(amount)
            return [self.known[amount]]
        if value.kind == "time":
            return [self._with_part(part) for part in value.parts]
        initials = "".join(part[0] for part in value.parts)
        whole = self.initials.get(value.parts[0], set()) if len(value.parts) == 1 else set()
        if len(value.parts) > 1:
            whole = self.words.get(initials, set())
        return [self.words.get(part, set()) | whole for part in value.parts]

    def _with_part(self, part: str) -> set[int]:
        found = self.parts.get(part, set())
        kind, _, number = part.partition(" ")
        if kind == "year":
            found = found | self._with_amount(Amount("", float(number), 1.0, float(number)))
        return found

    def _with_amount(self, wanted: Amount) -> set[int]:
        found = self._equal(wanted.dimension, wanted.magnitude, wanted)
        if wanted.dimension == "":
            return found | self._equal("written", wanted.magnitude, wanted)
        bare = Amount(
            "", wanted.number, wanted.step / wanted.factor, wanted.number, 1.0, wanted.rough
        )
        return found | self._equal("", bare.magnitude, bare)

    def _equal(self, dimension: str, magnitude: float, wanted: Amount) -> set[int]:
        places = self.amounts.get(dimension, [])
        far = max(abs(magnitude) * _CLOSE, 1e-9)
        reach = max(far, wanted.step / 2 * (1 + _CLOSE))
        found = set()
        at = bisect_left(places, magnitude - reach, key=lambda place: place.magnitude)
        while at < len(places) and places[at].magnitude <= magnitude + reach:
            place = places[at]
            converted = dimension not in ("", "written") and place.factor != wanted.factor
            if converted or wanted.rough or abs(place.magnitude - magnitude) <= far:
                found.add(place.sentence)
            at += 1
        return found


class FoundValue(NamedTuple):
    """A value of a response sentence, and where it stands."""

    value: Value  # its place is relative to the sentence
    status: ValueStatus
    sentences: tuple[int, ...]  # context sentences that have it, or a part of it; rising


def find_status(value: Value, contexts: ContextValues, near: Collection[int]) -> FoundValue:
    """Return whether the sentences ``near``, others or none have a value."""
    places = contexts.sentences_of(value)
    status: ValueStatus = "nowhere"
    if all(places):
        beside = all(not found.isdisjoint(near) for found in places)
        status = "near" if beside else "elsewhere"
    return FoundValue(value, status, tuple(sorted(set().union(*places))))


def find_statuses(
    sentences: Sequence[str], near: Sequence[Collection[int]], contexts: ContextValues
) -> tuple[tuple[FoundValue, ...], ...]:
    """Return the values of each response sentence with their status."""
    return tuple(
        tuple(find_status(value, contexts, own) for value in find_values(text))
        for text, own in zip(sentences, near, strict=True)
    )
