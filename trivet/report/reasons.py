"""Why text is unsupported, in words: ``60: not in the contexts; 30 days is [1]``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trivet.records import ContextSpan, Evaluation, UnsupportedSpan

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
    denials = [s for s in verdict.sentences if s.abstains and s.supported is False]
    rest = [
        span
        for span in verdict.unsupported
        if span.reason == "not_supported"
        and not any(s.start <= span.start < s.end for s in denials)
    ]
    if rest:
        name = "other marked text" if found else "marked text"
        found.append(Reason(name, "no context supports it"))
    found += [
        Reason(_brief(s.text), "says that there is no answer, but a context has one")
        for s in denials
    ]
    return found


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
