"""The texts of a verdict put together again from the sentences and spans that it holds.

A verdict alone does not hold the response or the contexts, but it holds their sentences and where
they stand. What stands between sentences, white space nearly always, is shown as spaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from trivet.records import Evaluation


class Placed(Protocol):
    """A stretch that knows its text: ``len(text) == end - start``."""

    @property
    def start(self) -> int:
        """First character."""

    @property
    def end(self) -> int:
        """One past the last."""

    @property
    def text(self) -> str:
        """What stands there."""


def rebuilt_response(verdict: Evaluation) -> str:
    """Return the response as far as its sentences and unsupported spans tell it."""
    return rebuilt([*verdict.sentences, *verdict.unsupported])


def rebuilt_contexts(verdict: Evaluation) -> tuple[str, ...]:
    """Return each context as far as its sentences tell it."""
    return tuple(rebuilt(context.sentences) for context in verdict.contexts)


def rebuilt(parts: Iterable[Placed]) -> str:
    """Put parts where they stood; the rest is spaces, so that every offset still holds."""
    texts, length = [], 0
    for part in sorted(parts, key=lambda part: part.start):
        if part.end > length:
            texts += [" " * (part.start - length), part.text[max(0, length - part.start) :]]
            length = part.end
    return "".join(texts)


def matches(text: str, parts: Sequence[Placed]) -> bool:
    """Say whether every part stands in a text where it says it does."""
    return all(text[part.start : part.end] == part.text for part in parts)
