"""Traces that are still arriving: a bounded buffer of spans, sampled by trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from trivet.data.traces.spans import TraceSpan

_ID_DIGITS, _IDS = 16, 1 << 64
_SPAN_CHARACTERS = 200  # of a span without texts


@dataclass
class _OpenTrace:
    spans: list[TraceSpan] = field(default_factory=list)
    characters: int = 0
    changed: float = 0.0
    has_root: bool = False


class TraceBuffer:
    """Spans by trace until the trace is complete.

    A trace is complete when its root has come, which ends last, and no span for a while after it;
    or when nothing of it has come for long, because its root may belong to another service.
    """

    def __init__(
        self,
        sample: float = 1.0,
        *,
        settle_seconds: float = 2.0,
        longest_seconds: float = 60.0,
        most_characters: int = 100_000_000,
    ) -> None:
        """Keep the settings.

        Args:
            sample: Share of the traces that is kept, chosen by their ids, in (0, 1].
            settle_seconds: Time without a new span after the root.
            longest_seconds: Time without a new span of a trace without a root.
            most_characters: Maximum characters of all spans; beyond it the oldest traces go.
        """
        self._limit = int(sample * _IDS)
        self._settle = settle_seconds
        self._longest = longest_seconds
        self._most = most_characters
        self._characters = 0
        self._open: dict[str, _OpenTrace] = {}

    def add(self, spans: Iterable[TraceSpan], now: float) -> int:
        """Add spans of sampled traces; return how many traces were dropped for want of room."""
        for span in spans:
            if int(span.trace[-_ID_DIGITS:], 16) >= self._limit:
                continue
            trace = self._open.setdefault(span.trace, _OpenTrace())
            texts = (span.question, span.answer, *(each.text for each in span.documents))
            characters = _SPAN_CHARACTERS + sum(len(text) for text in texts if text)
            trace.spans.append(span)
            trace.characters += characters
            trace.changed = now
            trace.has_root = trace.has_root or span.parent is None
            self._characters += characters
        dropped = 0
        while self._characters > self._most:
            self._pop(next(iter(self._open)))
            dropped += 1
        return dropped

    def take(self, now: float) -> list[list[TraceSpan]]:
        """Remove and return the traces that are complete."""
        ready = [
            name
            for name, trace in self._open.items()
            if now - trace.changed >= (self._settle if trace.has_root else self._longest)
        ]
        return [self._pop(name) for name in ready]

    def _pop(self, name: str) -> list[TraceSpan]:
        trace = self._open.pop(name)
        self._characters -= trace.characters
        return trace.spans
