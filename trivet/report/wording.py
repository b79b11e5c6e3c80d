"""Words for verdicts, the same everywhere that people read, and why text is marked.

A reason reads ``60: not in the contexts; [1] says 30 days``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trivet.records import ContextSpan, Evaluation, MarkedSpan, SentenceVerdict

SUPPORTED, UNSUPPORTED, TO_CHECK = "supported", "unsupported", "to check"
NO_CLAIM, ABSTAINS, NO_RESPONSE = "no claim", "abstains", "no response"


def verdict_word(verdict: Evaluation) -> str:
    """Return a verdict in words; empty if the response was not judged."""
    if verdict.adherent is None:
        return ""
    if verdict.abstains:
        return ABSTAINS
    if not verdict.adherent:
        return UNSUPPORTED
    return TO_CHECK if verdict.to_check else SUPPORTED


def sentence_word(sentence: SentenceVerdict, verdict: Evaluation) -> str:
    """Return the verdict on a sentence of a response in words."""
    if sentence.supported is None:
        return ABSTAINS if sentence.abstains else NO_CLAIM
    if not sentence.supported:
        return UNSUPPORTED
    inside = (sentence.start <= span.start < sentence.end for span in verdict.to_check)
    return TO_CHECK if any(inside) else SUPPORTED


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


_MAX_CHARACTERS = 80  # characters of a span or a value


_EXPLANATIONS = {
    "value_not_in_contexts": "not in the contexts",
    "value_of_another_passage": "not in the sources of its sentence",
    "quotation_not_in_contexts": "not word for word in the contexts",
    "identifier_not_in_contexts": "not in the contexts",
    "near_threshold": "its support just reaches the threshold",
    "not_supported": "no context supports it",
}


@dataclass(frozen=True, slots=True)
class ReasonPlace:
    """A place in a context that a reason names: ``before [1] after``."""

    span: ContextSpan
    before: str = " "
    after: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a span of the response, or the rest of the marked text, is unsupported or to check."""

    text: str  # the span, shortened; else a name of the rest
    explanation: str
    places: tuple[ReasonPlace, ...] = ()
    to_check: bool = False

    def __str__(self) -> str:
        places = (f"{spot.before}[{spot.span.context + 1}]{spot.after}" for spot in self.places)
        return f"{self.text}: {self.explanation}{''.join(places)}"


def find_reasons(verdict: Evaluation, contexts: Sequence[str]) -> list[Reason]:
    """Return a reason for each unsupported value, one for all other text, and those to check.

    Args:
        verdict: The verdict.
        contexts: Texts of its contexts, as far as they are known.
    """
    values = [span for span in verdict.unsupported if span.reason != "not_supported"]
    reasons = [of_span(span, contexts) for span in values]
    if len(values) < len(verdict.unsupported):
        name = "other marked text" if reasons else "marked text"
        reasons.append(Reason(name, _EXPLANATIONS["not_supported"]))
    return reasons + [of_span(span, contexts, to_check=True) for span in verdict.to_check]


def of_span(span: MarkedSpan, contexts: Sequence[str], *, to_check: bool = False) -> Reason:
    """Return the reason of one span; arguments as for ``find_reasons``."""
    places = []
    words = _EXPLANATIONS[span.reason]
    if span.found_at is not None and span.found_at.context < len(contexts):
        words = "only in another passage,"
        places.append(ReasonPlace(span.found_at))
    if (instead := span.instead) is not None:
        text = contexts[instead.context] if instead.context < len(contexts) else ""
        if value := text[instead.start : instead.end].strip():
            places.append(ReasonPlace(instead, "; ", f" says {_brief(value)}"))
    return Reason(_brief(span.text), words, tuple(places), to_check)


def _brief(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_CHARACTERS else f"{line[: _MAX_CHARACTERS - 1].rstrip()}…"
