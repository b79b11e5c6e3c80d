"""Streams of rows: in blocks, begun ahead, in threads, without blocking an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from trivet.evaluation.evaluation_job import WorkerPool
from trivet.evaluation.preprocessing import count_characters
from trivet.interface import Result, progress_bar
from trivet.logs.rows import Given, RowReader, count_rows, read_examples

T = TypeVar("T")
R = TypeVar("R")
C = TypeVar("C", bound="_Cancellable")

# A block is tokenized in one batch and its windows are packed together. The tokenizer takes about
# 150 bytes per character, so long examples make smaller blocks.
_BLOCK_EXAMPLES = 64
_BLOCK_CHARACTERS = 500_000
_AHEAD = 4  # rows in work for each thread: a slow row does not keep the others waiting


class _Cancellable(Protocol):
    def cancel(self) -> object: ...


class _Job(_Cancellable, Protocol):
    def results(self) -> list[Result]: ...


class Block(list[T]):
    """Rows of a block, bounded in number and in characters."""

    characters = 0

    def is_full_with(self, row: T, example: Given, most: int = _BLOCK_CHARACTERS) -> bool:
        """Append a row with its example; tell whether the block has ``most`` characters or rows."""
        self.append(row)
        self.characters += count_characters(example)
        return len(self) >= _BLOCK_EXAMPLES or self.characters >= most


def blocks(examples: Iterable[Given]) -> Iterator[list[Given]]:
    """Group a stream into blocks of a bounded number of examples and of characters."""
    block = Block[Given]()
    for example in examples:
        if block.is_full_with(example, example):
            yield block
            block = Block()
    if block:
        yield block


def prefetch(blocks: Iterable[T], begin: Callable[[T], C], ahead: int = 1) -> Iterator[C]:
    """Start the work on ``ahead`` more blocks before one is yielded: the backend never idles.

    Errors of ``begin`` and ``blocks`` are raised after the blocks that were started before. All
    work is cancelled if the caller stops early.
    """
    begun: deque[C] = deque()
    works: Iterator[C] = map(begin, blocks)
    broken = None
    try:
        while True:
            try:
                begun.extend(itertools.islice(works, ahead + 1 - len(begun)))
            except Exception as error:
                broken, works = error, iter(())
            if not begun:
                break
            yield begun[0]
            begun.popleft()
    finally:
        for each in begun:
            each.cancel()
    if broken is not None:
        raise broken


@dataclass(frozen=True)
class _Begun(Generic[T, R]):
    row: T
    result: Future[R]

    def cancel(self) -> None:
        self.result.cancel()


def work_in_order(
    rows: Iterable[T], work: Callable[[T], R], threads: int
) -> Generator[tuple[T, R], None, None]:
    """Yield each row with what ``work`` returns for it, lazily and in order.

    Several rows are worked on at once. An error of ``work`` is raised at its row; work that has not
    begun then is dropped. With one thread it is that of the caller.
    """
    if threads == 1:
        yield from ((row, work(row)) for row in rows)
        return
    pool = WorkerPool(threads)

    def begin(row: T) -> _Begun[T, R]:
        return _Begun(row, pool.submit(lambda _: work(row), pool))

    for begun in prefetch(rows, begin, _AHEAD * threads):
        yield begun.row, begun.result.result()


async def evaluate_async(
    rows: object,
    mapping: Mapping[str, str] | None,
    begin: Callable[[list[Given]], _Job],
    progress: bool = False,
) -> AsyncGenerator[Result]:
    """Evaluate rows, in order; reading, tokenizing and waiting run in threads.

    One block runs while the next one is read. Begun work is cancelled if the caller stops.
    """
    begun: deque[_Job] = deque()
    stream, broken = _async_blocks(rows, mapping), None
    bar = progress_bar(count_rows(rows)) if progress else contextlib.nullcontext()
    try:
        with bar as advance:
            while True:
                try:
                    block = await anext(stream, None)
                except Exception as error:  # results of the rows before come first
                    block, broken = None, error
                if block is not None:
                    begun.append(await asyncio.to_thread(begin, block))
                while len(begun) > (block is not None):
                    for result in await asyncio.to_thread(begun[0].results):
                        if advance is not None:
                            advance()
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
    reader, block = RowReader(mapping), Block[Given]()
    async for row in rows:
        example = reader.read(row)
        if block.is_full_with(example, example):
            yield block
            block = Block()
    if block:
        yield block
