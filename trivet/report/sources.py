"""Sources of response sentences: the context sentences that share most words with each.

Counted from the texts of a verdict alone. A source is where to look, not a proof: an unsupported
sentence has sources too, and they often say something else.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import NamedTuple

from trivet.records import Evaluation

_MOST = 2  # sources of one sentence
_LEAST_SHARE = 0.15  # of a sentence's words, by weight, that a source must add

_WORD = re.compile(r"\w+")
_NUMBERS = r"\d{1,3}(?:\s*[-\u2013]\s*\d{1,3})?"
MARK = re.compile(rf"\[\s*({_NUMBERS}(?:\s*[,;]\s*{_NUMBERS})*)\s*\]")
"""A citation mark: ``[1]``, ``[1, 3]``, ``[1-3]``."""


class Source(NamedTuple):
    """A context sentence, and the share of a response sentence's words that it contains."""

    context: int  # index of the context
    sentence: int  # index of the sentence in the verdict on this context
    share: float  # in [0, 1]; rare words count more


def find_sources(verdict: Evaluation) -> list[tuple[Source, ...]]:
    """Return up to two sources for each sentence of the response, best first.

    The second one contains words that the first one lacks. Each word weighs ``log(1 + n / k)``,
    where k of the n context sentences contain it.
    """
    words = {
        (number, place): set(_WORD.findall(sentence.text.casefold()))
        for number, context in enumerate(verdict.contexts)
        for place, sentence in enumerate(context.sentences)
    }
    counts = Counter(word for own in words.values() for word in own)
    found = []
    for sentence in verdict.sentences:
        left = set(_WORD.findall(MARK.sub(" ", sentence.text).casefold()))
        weights = {word: math.log(1 + len(words) / max(1, counts[word])) for word in left}
        total = math.fsum(weights.values())
        sources: list[Source] = []
        while words and len(sources) < _MOST:
            shared, place = max(
                (math.fsum(weights[word] for word in left & own), (-place[0], -place[1]))
                for place, own in words.items()
            )
            place = -place[0], -place[1]
            if shared <= 0 or shared < _LEAST_SHARE * total:
                break
            sources.append(Source(*place, shared / total))
            left -= words[place]
        found.append(tuple(sources))
    return found
