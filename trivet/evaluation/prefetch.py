"""Prefetching: the next blocks are started before one is finished, so the backend never idles."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar


class Cancellable(Protocol):
    """Work that was started."""

    def cancel(self) -> None:
        """Drop the parts that have not run."""
        ...


T = TypeVar("T")
C = TypeVar("C", bound=Cancellable)


def prefetch(blocks: Iterable[T], begin: Callable[[T], C], ahead: int = 1) -> Iterator[C]:
    """Start the work on each block ahead of time and yield it in order.

    ``ahead`` further blocks are started before one is yielded. Errors of ``begin`` and ``blocks``
    are raised after the blocks that were started before. All work is cancelled if the caller stops
    early.
    """
    begun: deque[C] = deque()
    broken = None
    iterator = iter(blocks)
    try:
        while True:
            try:
                begun.append(begin(next(iterator)))
            except StopIteration:
                break
            except Exception as error:
                broken = error
                break
            if len(begun) > ahead:
                yield begun[0]
                begun.popleft()
        while begun:
            yield begun[0]
            begun.popleft()
    finally:
        for each in begun:
            each.cancel()
    if broken is not None:
        raise broken
