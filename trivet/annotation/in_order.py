"""Rows that are worked on at the same time, and come out in their order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import TypeVar

_Row = TypeVar("_Row")
_Result = TypeVar("_Result")


async def work_in_order(
    rows: Iterable[_Row], work: Callable[[_Row], Awaitable[_Result]], ahead: int
) -> AsyncGenerator[tuple[_Row, _Result], None]:
    """Yield each row with the result of ``work``, at most ``ahead`` rows after the first undone.

    An error of ``work`` is raised at its row; what works on later rows is cancelled then.
    """
    pending: deque[tuple[_Row, asyncio.Future[_Result]]] = deque()
    try:
        for row in rows:
            pending.append((row, asyncio.ensure_future(work(row))))
            if len(pending) >= ahead:
                first, result = pending.popleft()
                yield first, await result
        while pending:
            first, result = pending.popleft()
            yield first, await result
    finally:
        for _, result in pending:
            result.cancel()
        await asyncio.gather(*(result for _, result in pending), return_exceptions=True)
