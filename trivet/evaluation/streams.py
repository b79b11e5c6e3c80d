"""Streams of rows: in blocks, begun ahead, in threads, without blocking an event loop."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

from trivet.evaluation.preprocessing import count_characters
from trivet.interface import Result, Results
from trivet.logs.rows import Given

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
        for work in begun:
            work.cancel()
    if broken is not None:
        raise broken


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
    pool, begun_rows = ThreadPoolExecutor(threads), deque[T]()

    def begin(row: T) -> Future[R]:
        begun_rows.append(row)
        return pool.submit(work, row)

    try:
        for begun in prefetch(rows, begin, _AHEAD * threads):
            yield begun_rows.popleft(), begun.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


async def iterate_in_thread(results: Results) -> AsyncGenerator[Result]:
    """Yield results, which are computed in a thread of their own, until the caller stops."""
    pool, run = ThreadPoolExecutor(1), asyncio.get_running_loop().run_in_executor
    try:
        while (result := await run(pool, next, results, None)) is not None:
            yield result
    finally:
        pool.submit(results.close)
        pool.shutdown(wait=False)


def wait_for_rows(rows: AsyncIterable[T]) -> Iterator[T]:
    """Return the rows of an asynchronous stream of this event loop, for another thread."""
    iterator, loop = aiter(rows), asyncio.get_running_loop()

    async def read() -> list[T]:
        async for row in iterator:
            return [row]
        return []

    def rows_in_order() -> Iterator[T]:
        while row := asyncio.run_coroutine_threadsafe(read(), loop).result():
            yield from row

    return rows_in_order()
