"""How many backend calls run at once, and how many threads each of them has."""

from __future__ import annotations

import os

from trivet.backends.backend import Backend, ConcurrentBackend


def workers_of(backend: Backend) -> int:
    """Return how many calls an engine likes to run at once."""
    return backend.workers if isinstance(backend, ConcurrentBackend) else 1


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_per_worker(threads: int | None, workers: int) -> int:
    """Return how many threads run one call; 0 lets the engine choose, where there is one worker.

    Args:
        threads: Of all workers; ``None`` takes one for each core.
        workers: Calls that run at once.

    Raises:
        ValueError: ``threads`` is below 1, or there are fewer than workers.
    """
    if threads is not None and threads < 1:
        raise ValueError(f"threads ({threads}) must be at least 1")
    if workers == 1:
        return threads or 0
    shared = threads or cores()
    if not 1 <= workers <= shared:
        raise ValueError(f"workers ({workers}) must be from 1 to the {shared} threads")
    return shared // workers


def are_few(calls: int, workers: int) -> bool:
    """Return whether calls leave half of the workers idle or more: then each may have all threads."""
    return 2 * calls <= workers
