"""Streams of examples in blocks, and their evaluation beside a free event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator, Mapping
from typing import Protocol

from trivet.data.logs.rows import Given, RowReader, read_examples
from trivet.evaluation.preprocessing import count_characters
from trivet.results import Result

# A block is tokenized in one batch and its windows are packed together. The tokenizer takes about
# 150 bytes per character, so long examples make smaller blocks.
_BLOCK_EXAMPLES = 64
_BLOCK_CHARACTERS = 500_000


class _Job(Protocol):
    def results(self) -> list[Result]: ...
    def cancel(self) -> None: ...


class _Block(list[Given]):
    """Examples of a block, bounded in number and in characters."""

    characters = 0

    def is_full_with(self, example: Given) -> bool:
        """Append an example and tell whether the block is full."""
        self.append(example)
        self.characters += count_characters(example)
        return len(self) >= _BLOCK_EXAMPLES or self.characters >= _BLOCK_CHARACTERS


def blocks(examples: Iterable[Given]) -> Iterator[list[Given]]:
    """Group a stream into blocks of a bounded number of examples and of characters."""
    block = _Block()
    for example in examples:
        if block.is_full_with(example):
            yield block
            block = _Block()
    if block:
        yield block


async def evaluate_async(
    rows: object, mapping: Mapping[str, str] | None, begin: Callable[[list[Given]], _Job]
) -> AsyncGenerator[Result]:
    """Evaluate rows, in order; reading, tokenizing and waiting run in threads.

    One block runs while the next one is read. What was begun is cancelled if the caller stops.
    """
    begun: deque[_Job] = deque()
    stream, broken = _async_blocks(rows, mapping), None
    try:
        while True:
            try:
                block = await anext(stream, None)
            except Exception as error:  # results of the rows before come first
                block, broken = None, error
            if block is not None:
                begun.append(await asyncio.to_thread(begin, block))
            while len(begun) > (block is not None):
                for result in await asyncio.to_thread(begun[0].results):
                    yield result
                begun.popleft()
            if block is None:
                break
    finally:
        for job in begun:
            job.cancel()
        await stream.aclose()
    if broken is not None:
        raise broken


async def _async_blocks(
    rows: object, mapping: Mapping[str, str] | None
) -> AsyncGenerator[list[Given]]:
    if not isinstance(rows, AsyncIterable):
        iterator = blocks(read_examples(rows, mapping))
        while (block := await asyncio.to_thread(next, iterator, None)) is not None:
            yield block
        return
    reader, block = RowReader(mapping), _Block()
    async for row in rows:
        if block.is_full_with(reader.read(row)):
            yield block
            block = _Block()
    if block:
        yield block
