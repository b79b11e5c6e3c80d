"""A batcher whose backend runs only the calls that a test lets through."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.judges import GatedBackend, until
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.preprocessing import PreprocessedExample
from trivet.records import RagExample
from trivet.serve.scheduling.batched_request import Predictions
from trivet.serve.scheduling.batcher import Batcher

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


def token(evaluator: Evaluator, word: str) -> int:
    (segment,) = evaluator.preprocessor.tokenizer.encode([word])
    return int(segment.ids[0])


@dataclass
class GatedBatcher:
    """A batcher whose backend is gated, and the reasons of its refusals."""

    batcher: Batcher
    evaluator: Evaluator
    gated: GatedBackend
    reasons: list[str]

    def ask(self, *examples: RagExample, **settings: Any) -> asyncio.Task[Predictions]:
        """Send a request without waiting for its answer."""
        return asyncio.create_task(self.batcher.evaluate(examples, **settings))

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
        return self.gated.windows_with(token(self.evaluator, word))

    def count_windows(self, asked: RagExample) -> int:
        (prepared,) = self.evaluator.preprocessor.preprocess([asked])
        assert isinstance(prepared, PreprocessedExample)
        return len(prepared.layout.rows)


@asynccontextmanager
async def started(evaluator: Evaluator, **settings: Any) -> AsyncIterator[Batcher]:
    batcher = Batcher(evaluator, **settings)
    await batcher.start()
    try:
        yield batcher
    finally:
        await batcher.close()


@asynccontextmanager
async def open_batcher(
    evaluator: Evaluator, gated: GatedBackend, **settings: Any
) -> AsyncIterator[GatedBatcher]:
    tally = Tally()
    async with started(evaluator, watch=tally, **settings) as batcher:
        try:
            yield GatedBatcher(batcher, evaluator, gated, tally.reasons)
        finally:
            gated.let(10_000)


@pytest.fixture
async def at(gated_judge: Evaluator, gated: GatedBackend) -> AsyncIterator[GatedBatcher]:
    """Return a batcher with the usual settings."""
    async with open_batcher(gated_judge, gated) as opened:
        yield opened
