"""Words for verdicts, the same everywhere that people read, and why text is unsupported.

A reason reads ``60: not in the contexts; 30 days is [1]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trivet.records import ContextSpan, Evaluation, SentenceVerdict, UnsupportedSpan

SUPPORTED, UNSUPPORTED, POSSIBLY = "supported", "unsupported", "possibly unsupported"
NO_CLAIM, ABSTAINS, NO_RESPONSE = "no claim", "abstains", "no response"
NEAR = 0.05
"""Margin of support below the threshold in which a verdict reads *possibly unsupported*.

On RAGBench's dev rows 5 of the 13 answers flagged within it are labelled unsupported, and 18 of the
30 below it.
"""


def is_near(score: float | None, threshold: float | None) -> bool:
    """Return whether a score below the threshold is within ``NEAR`` of it."""
    return score is not None and threshold is not None and threshold - NEAR <= score < threshold


def answer_word(adherent: bool, faithfulness: float | None, threshold: float | None) -> str:
    """Return the verdict on an answer in words."""
    if adherent:
        return SUPPORTED
    return POSSIBLY if is_near(faithfulness, threshold) else UNSUPPORTED


def verdict_word(verdict: Evaluation) -> str:
    """Return a verdict in words; empty if the response was not judged."""
    if verdict.adherent is None:
        return ""
    if verdict.abstains:
        return ABSTAINS
    return answer_word(verdict.adherent, verdict.faithfulness, verdict.threshold)


def sentence_word(
    sentence: SentenceVerdict, faithfulness: float | None, threshold: float | None
) -> str:
    """Return the verdict on a sentence in words, given the answer's score and threshold.

    A sentence is unsupported if its support and the answer's faithfulness are both below the
    threshold, so the higher of the two says how near it is.
    """
    if sentence.supported is None:
        return ABSTAINS if sentence.abstains else NO_CLAIM
    if sentence.supported:
        return SUPPORTED
    score = max(sentence.support or 0.0, faithfulness or 0.0)
    return POSSIBLY if is_near(score, threshold) else UNSUPPORTED


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


_MOST = 80  # characters of a span or a value


@dataclass(frozen=True, slots=True)
class ReasonPlace:
    """A place in a context that a reason names."""

    value: str  # the text there, shortened; empty if it is the unsupported text itself
    span: ContextSpan


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a value of the response, or the rest of the marked text, is unsupported."""

    text: str  # the value, shortened; else a name of the rest
    said: str
    places: tuple[ReasonPlace, ...] = ()

    def __str__(self) -> str:
        places = (f"{between(place)}[{place.span.context + 1}]" for place in self.places)
        return f"{self.text}: {self.said}{''.join(places)}"


def between(place: ReasonPlace) -> str:
    """Return the words between what was said before and the number of a place's context."""
    return f"; {place.value} is " if place.value else " "


def find_reasons(verdict: Evaluation, contexts: Sequence[str]) -> list[Reason]:
    """Return a reason for each unsupported value, and one for all other unsupported text.

    Args:
        verdict: The verdict.
        contexts: Texts of its contexts, as far as they are known.
    """
    found = [of_value(s, contexts) for s in verdict.unsupported if s.reason != "not_supported"]
    if len(found) == len(verdict.unsupported):
        return found
    name = "other marked text" if found else "marked text"
    return [*found, Reason(name, "no context supports it")]


def of_value(span: UnsupportedSpan, contexts: Sequence[str]) -> Reason:
    """Return the reason of an unsupported value; arguments as for ``find_reasons``."""
    places = []
    said = "not in the contexts"
    if span.reason == "value_of_another_passage":
        said = "not in the sources of its sentence"
        if span.found_at is not None and span.found_at.context < len(contexts):
            said = "only in another passage,"
            places.append(ReasonPlace("", span.found_at))
    if (instead := span.instead) is not None:
        text = contexts[instead.context] if instead.context < len(contexts) else ""
        if value := text[instead.start : instead.end].strip():
            places.append(ReasonPlace(_brief(value), instead))
    return Reason(_brief(span.text), said, tuple(places))


def _brief(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST else f"{line[: _MOST - 1].rstrip()}…"
