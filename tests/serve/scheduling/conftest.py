"""A batcher whose backend runs only the calls that a test lets through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.judges import GatedBackend, until
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.preprocessing import PreprocessedExample
from trivet.records import RagExample
from trivet.serve.scheduling.batcher import Batcher
from trivet.serve.scheduling.predictions import Predictions

# Words by which the windows of a request are known again: single tokens of the tiny vocabulary.
LONG, SHORT, OTHER = "garden", "oven", "lamp"


class Rejections:
    """Keeps by what name requests were refused."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def called(self, windows: int, seconds: float) -> None:
        assert windows >= 1

    def rejected(self, reason: str) -> None:
        self.reasons.append(reason)


def example(word: str, passages: int = 1) -> RagExample:
    """Return an example whose every window shows ``word``: it is the response."""
    passage = (
        "the old mill is in the north of the town and the ferry is red" if passages > 1 else "x"
    )
    return RagExample("", (passage,) * passages, word, id=word)


class Room:
    """A batcher whose engine runs only what it is let.

    Attributes:
        batcher: The batcher.
        gated: Its engine.
        reasons: By what names requests were refused.
    """

    def __init__(self, batcher: Batcher, gated: GatedBackend, evaluator: Evaluator) -> None:
        self.batcher = batcher
        self.gated = gated
        self.reasons: list[str] = []
        self._evaluator = evaluator

    def ask(self, *examples: RagExample, **settings: Any) -> asyncio.Task[Predictions]:
        """Ask; the answer may come later."""
        return asyncio.create_task(self.batcher.evaluate(examples, **settings))

    async def hold(self) -> asyncio.Task[Predictions]:
        """Let a small request occupy the engine."""
        held = self.ask(example("boat"))
        await self.gated.begun(1)
        return held

    async def waiting(self, windows: int) -> None:
        """Wait until as many windows wait."""
        await until(lambda: self.batcher.state().windows == windows)

    def windows_with(self, word: str) -> list[int]:
        """Count the windows of every call that show a word."""
        (segment,) = self._evaluator.preprocessor.tokenizer.encode([word])
        return self.gated.windows_with(int(segment.ids[0]))

    def count_windows(self, asked: RagExample) -> int:
        (prepared,) = self._evaluator.preprocessor.preprocess([asked])
        assert isinstance(prepared, PreprocessedExample)
        return len(prepared.layout.rows)


@asynccontextmanager
async def room(evaluator: Evaluator, gated: GatedBackend, **settings: Any) -> AsyncIterator[Room]:
    watch = Rejections()
    batcher = Batcher(evaluator, watch=watch, **settings)
    await batcher.start()
    opened = Room(batcher, gated, evaluator)
    opened.reasons = watch.reasons
    try:
        yield opened
    finally:
        gated.let(10_000)
        await batcher.close()


@pytest.fixture
def anyio_backend() -> str:
    """Run asynchronous tests in asyncio."""
    return "asyncio"


@pytest.fixture
async def at(gated_judge: Evaluator, gated: GatedBackend) -> AsyncIterator[Room]:
    """Return a room with the usual settings."""
    async with room(gated_judge, gated) as opened:
        yield opened
