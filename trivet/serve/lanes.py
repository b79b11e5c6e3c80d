"""As many engine calls at once as an engine likes.

On a CPU that is one for each core, each on one thread: cores that share a call wait for one another
after every product, and for the one that other work holds up.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from trivet.serve.backend import Backend, LanedBackend

T = TypeVar("T")


def lanes_of(backend: Backend) -> int:
    """Return how many calls an engine likes to run at once."""
    return backend.lanes if isinstance(backend, LanedBackend) else 1


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_of_a_lane(threads: int | None, lanes: int) -> int:
    """Return how many threads run one call; 0 lets the engine choose, where there is one lane.

    Args:
        threads: Of all lanes; ``None`` takes one for each core.
        lanes: Calls that run at once.

    Raises:
        ValueError: ``threads`` is below 1, or there are fewer than lanes.
    """
    if threads is not None and threads < 1:
        raise ValueError(f"threads ({threads}) must be at least 1")
    if lanes == 1:
        return threads or 0
    shared = threads or cores()
    if not 1 <= lanes <= shared:
        raise ValueError(f"lanes ({lanes}) must be from 1 to the {shared} threads")
    return shared // lanes


class Lanes:
    """Runs work in the order it comes, some of it at once. Safe for threads.

    Attributes:
        count: How much at once.
    """

    def __init__(self, count: int) -> None:
        """Start no thread yet.

        Args:
            count: How much runs at once.
        """
        self.count = count
        self._open()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Let work wait for a lane. Who gives up cancels what comes back."""
        if self._process != os.getpid():
            self._open()  # the threads stayed behind in the process that this one was forked from
        return self._pool.submit(work)

    def _open(self) -> None:
        self._process = os.getpid()
        self._pool = ThreadPoolExecutor(self.count, "trivet-engine")
