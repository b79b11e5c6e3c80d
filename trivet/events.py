"""Events on an answer that is still being written: plain data."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from trivet.records import ContextSpan, UnsupportedSpan


@dataclass(frozen=True, slots=True)
class SentenceEvent:
    """A sentence of an answer that is still being written, judged when it ended.

    Attributes:
        start: First character in the text so far.
        end: One past the last character.
        text: The sentence.
        support: As of ``SentenceVerdict``; ``None`` without a claim.
        supported: Whether ``support`` reaches ``threshold``, whatever the sentences before it
            reach; ``None`` without a claim.
        unsupported: Spans in it that no context supports, by characters of the text so far.
        source: Its best source by the evidence head, else the context sentence that shares most
            words with it; ``None`` without contexts.
        source_text: Text of ``source``.
        abstains: Whether it says that there is no answer.
        threshold: Threshold of single sentences, of the bundle or the call; ``None`` from a server
            that does not tell it.
    """

    start: int
    end: int
    text: str
    support: float | None
    supported: bool | None
    unsupported: tuple[UnsupportedSpan, ...]
    source: ContextSpan | None
    source_text: str | None
    abstains: bool = False
    threshold: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain dictionaries, lists, numbers and strings."""
        return dataclasses.asdict(self)
