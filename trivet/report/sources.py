"""Sources of response sentences: by the evidence head, else those that share most words with each.

Read from a verdict alone. A source by words is where to look, not a proof: an unsupported sentence
has such sources too, and they often say something else.
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
    """A context sentence, as a source of a response sentence."""

    context: int  # index of the context
    sentence: int  # index of the sentence in the verdict on this context
    share: float  # its score, or the share of the response sentence's words that it contains


def find_sources(verdict: Evaluation) -> list[tuple[Source, ...]]:
    """Return the sources of each sentence of the response, best first.

    They are its evidence. A sentence without any has up to two sources by words, of which the
    second one contains words that the first one lacks. Each word weighs ``log(1 + n / k)``,
    where k of the n context sentences contain it.
    """
    words = {
        (number, place): set(_WORD.findall(sentence.text.casefold()))
        for number, context in enumerate(verdict.contexts)
        for place, sentence in enumerate(context.sentences)
    }
    places = {
        (number, sentence.start, sentence.end): place
        for number, context in enumerate(verdict.contexts)
        for place, sentence in enumerate(context.sentences)
    }
    counts = Counter(word for own in words.values() for word in own)
    found = []
    for sentence in verdict.sentences:
        evidence = [
            Source(one.context, places[at], one.score)
            for one in sentence.evidence or ()
            if (at := (one.context, one.start, one.end)) in places
        ]
        if evidence:
            found.append(tuple(evidence))
            continue
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
