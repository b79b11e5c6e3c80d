"""The one loop over rows: several are worked on at once, and results come in their order.

It is `trivet.evaluation.streams.prefetch` over threads. `trivet.batch.blocks` takes that for
blocks of rows, since a backend has threads of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

from trivet.evaluation.evaluation_job import WorkerPool
from trivet.evaluation.streams import prefetch

Row = TypeVar("Row")
Result = TypeVar("Result")

_AHEAD = 4  # rows in work for each thread: a slow row does not keep the others waiting


@dataclass(frozen=True)
class _Begun(Generic[Row, Result]):
    row: Row
    result: Future[Result]

    def cancel(self) -> None:
        self.result.cancel()


def work_in_order(
    rows: Iterable[Row], work: Callable[[Row], Result], threads: int
) -> Generator[tuple[Row, Result], None, None]:
    """Yield each row with what ``work`` returns for it, lazily and in order.

    An error of ``work`` is raised at its row; work that has not begun then is dropped. With one
    thread it is that of the caller.
    """
    if threads == 1:
        yield from ((row, work(row)) for row in rows)
        return
    pool = WorkerPool(threads)

    def begin(row: Row) -> _Begun[Row, Result]:
        return _Begun(row, pool.submit(lambda _: work(row), pool))

    for begun in prefetch(rows, begin, _AHEAD * threads):
        yield begun.row, begun.result.result()
