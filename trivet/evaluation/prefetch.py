"""The next blocks are begun before one is ended, so that the engine never waits for work."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar


class Cancellable(Protocol):
    """Work that was begun."""

    def cancel(self) -> None:
        """Give up what has not run."""
        ...


T = TypeVar("T")
C = TypeVar("C", bound=Cancellable)


def prefetch(blocks: Iterable[T], begin: Callable[[T], C], ahead: int = 1) -> Iterator[C]:
    """Begin block after block, and hand on each when those after it are under way.

    Args:
        blocks: Are read ahead.
        begin: Begins the work on a block. An error of it, or in the blocks, is raised behind the
            blocks that were begun.
        ahead: How many are begun before one is handed on.

    Yields:
        What was begun, in order. Whoever stops early stops all of it.
    """
    begun: deque[C] = deque()
    broken = None
    iterator = iter(blocks)
    try:
        while True:
            try:
                block = next(iterator)
            except StopIteration:
                break
            except Exception as error:
                broken = error
                break
            try:
                begun.append(begin(block))
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
