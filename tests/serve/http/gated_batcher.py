"""A batcher whose backend runs only the calls that a test lets through."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.judges import GatedBackend, until
from trivet.evaluation.evaluator import Evaluator
from trivet.records import RagExample
from trivet.serve.http.batcher import Batcher, Predictions

# Words that identify the windows of a request: single tokens of the tiny vocabulary.
LONG, SHORT, OTHER = "garden", "oven", "lamp"


class Tally:
    """Counts the calls and refusals of a batcher."""

    def __init__(self) -> None:
        self.windows: list[int] = []
        self.seconds: list[float] = []
        self.reasons: list[str] = []

    def called(self, windows: int, seconds: float) -> None:
        self.windows.append(windows)
        self.seconds.append(seconds)

    def rejected(self, reason: str) -> None:
        self.reasons.append(reason)


def example(word: str, passages: int = 1) -> RagExample:
    """Return an example whose every window shows ``word``: it is the response."""
    if passages == 1:
        return RagExample("", ("x",), word, id=word)
    # Equal passages would be read once.
    words = ["the", "old", "mill", "in", "the", "north", "of", "town", "and", "ferry", "is", "red"]
    orders = itertools.islice(itertools.permutations(words), passages)
    return RagExample("", tuple(map(" ".join, orders)), word, id=word)


@dataclass
class GatedBatcher:
    """A batcher whose backend runs only the calls that a test lets through."""

    batcher: Batcher
    evaluator: Evaluator
    gated: GatedBackend
    tally: Tally

    def ask(self, *examples: RagExample, **options: Any) -> asyncio.Task[Predictions]:
        """Send a request without waiting for its answer."""
        return asyncio.create_task(self.batcher.evaluate(examples, **options))

    async def hold(self) -> asyncio.Task[Predictions]:
        """Let a small request occupy the backend."""
        held = self.ask(example("boat"))
        await self.gated.begun(1)
        return held

    async def waiting(self, windows: int) -> None:
        """Wait until so many windows wait."""
        await until(lambda: self.batcher.state().windows == windows)

    def windows_with(self, word: str) -> list[int]:
        """Count the windows of every call that show a word."""
        return self.gated.windows_with(self.token(word))

    def token(self, word: str) -> int:
        (segment,) = self.evaluator.preprocessor.tokenizer.encode([word])
        return int(segment.ids[0])

    def count_windows(self, asked: RagExample) -> int:
        return self.evaluator.prepare([asked]).job.windows


@asynccontextmanager
async def opened(
    evaluator: Evaluator, gated: GatedBackend, **limits: Any
) -> AsyncIterator[GatedBatcher]:
    tally = Tally()
    batcher = Batcher(evaluator, watch=tally, **limits)
    try:
        yield GatedBatcher(batcher, evaluator, gated, tally)
    finally:
        gated.let(10_000)
        await batcher.close()
