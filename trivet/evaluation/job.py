"""Inference jobs: backend calls of many examples on a pool of worker threads.

On a CPU there is one worker for each core, with one thread each: cores that share a call wait for
one another after every matmul, and for the core that other work holds up.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from trivet.backends.backend import Backend
from trivet.data.windows import Layout
from trivet.evaluation.packing import BackendCall, BatchLimits, WindowAccumulator, pack_calls

T = TypeVar("T")

# Answers are added in groups: a thread that every call wakes up would delay the next call.
_ADDED_TOGETHER = 16
# How long the end of the process waits for running calls; a backend that hangs must not stop it.
_AT_EXIT_SECONDS = 5.0


class InferenceJob:
    """Layouts whose windows wait for the backend or run."""

    def __init__(
        self,
        layouts: Sequence[Layout],
        backend: Backend,
        pool: WorkerPool,
        pad: int,
        limits: BatchLimits,
    ) -> None:
        """Submit all calls to the workers of the backend; ``pad`` is the token id of padding."""
        self._examples = [WindowAccumulator(layout) for layout in layouts]
        self._backend = backend
        self._pad = pad
        self._calls: deque[Future[BackendCall]] = deque()
        try:
            calls = pack_calls(self._examples, limits)
            rest = len(calls) % pool.count
            for call in calls:
                # The last calls may be too few for all workers.
                at_once = rest if call.number >= len(calls) - rest else pool.count
                run = functools.partial(self._run, call, at_once)
                self._calls.append(pool.submit(run, owner=self))
        except BaseException:
            self.cancel()
            raise

    def wait(self) -> list[WindowAccumulator]:
        """Wait for all calls and add their answers, in the order of the calls.

        Returns:
            One accumulator for each layout. An error of a call is that of all its examples; of
            several errors of an example the first one counts.

        Raises:
            CancelledError: The job was cancelled.
        """
        try:
            while self._calls:
                group = list(itertools.islice(self._calls, _ADDED_TOGETHER))
                group[-1].exception()  # waits
                for future in group:
                    future.result().add()
                    self._calls.popleft()
        except BaseException:
            self.cancel()
            raise
        return self._examples

    def cancel(self) -> None:
        """Drop the calls that have not run."""
        for call in self._calls:
            call.cancel()

    def _run(self, call: BackendCall, at_once: int, others: int) -> BackendCall:
        """Run one call in a worker; ``others`` counts the calls of other jobs."""
        if call.is_needed():
            call.run(self._backend, self._pad, at_once + others)
        return call


class WorkerPool:
    """Threads that run work. Thread-safe.

    Work submitted by one thread runs in its order; threads that submit at the same time take turns.
    A pool of the standard library would run all waiting work when the process ends, and accept
    nothing more as soon as its main thread has ended.

    Attributes:
        count: Number of workers.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._open()

    def submit(self, work: Callable[[int], T], owner: object) -> Future[T]:
        """Queue work for a worker; cancel the future to drop it.

        Args:
            work: Called with the amount of work of other owners that runs or waits.
            owner: Owner of the work, told apart by identity; must live as long as its work.
        """
        if self._shared.process != os.getpid():
            self._open()  # the threads stayed behind in the process that this one was forked from
        shared = self._shared
        future: Future[T] = Future()
        with shared.changed:
            if len(shared.threads) < self.count:
                # A call that hangs cannot be ended; as a daemon it does not keep the process alive.
                thread = threading.Thread(target=shared.serve, name="trivet-worker", daemon=True)
                thread.start()
                shared.threads.append(thread)
            queue = shared.waiting.setdefault(threading.get_ident(), deque())
            queue.append(_Waiting(future, work, id(owner)))
            shared.changed.notify()
        return future

    def _open(self) -> None:
        self._shared = _Shared()
        weakref.finalize(self, self._shared.close).atexit = False


class _Waiting(NamedTuple):
    """Work that waits for a worker; ``owner`` is an identity."""

    future: Future[Any]
    work: Callable[[int], Any]
    owner: int


class _Shared:
    """State that the threads of a pool share; it does not keep the pool alive."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.waiting: OrderedDict[int, deque[_Waiting]] = OrderedDict()  # by submitting thread
        self.changed = threading.Condition()
        self.threads: list[threading.Thread] = []
        self._running: dict[int, int] = {}  # owner of the running work, by thread
        self._closed = False
        _open_pools.add(self)

    def close(self) -> None:
        """Cancel what waits and let the threads end after their current work."""
        if self.process != os.getpid():
            return  # forked: a lock that was held then will never be released here
        with self.changed:
            self._closed = True
            for each in itertools.chain.from_iterable(self.waiting.values()):
                each.future.cancel()
            self.waiting.clear()
            self.changed.notify_all()

    def join(self) -> None:
        """Wait for the running work, after ``close``."""
        for thread in self.threads if self.process == os.getpid() else ():
            thread.join(_AT_EXIT_SECONDS)

    def serve(self) -> None:
        """Run work until the pool is closed."""
        while (taken := self._take()) is not None:
            (future, work, _), others = taken
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work(others))
            except BaseException as error:  # belongs to the thread that waits for the result
                future.set_exception(error)
            del taken, future, work  # else an idle worker would keep its last answer

    def _take(self) -> tuple[_Waiting, int] | None:
        """Wait for work and take the next one, with the amount of others' work; None if closed."""
        with self.changed:
            self._running.pop(threading.get_ident(), None)
            while not self.waiting:
                if self._closed:
                    return None
                self.changed.wait()
            submitter, queue = self.waiting.popitem(last=False)
            taken = queue.popleft()
            if queue:
                self.waiting[submitter] = queue
            owners = [each.owner for waits in self.waiting.values() for each in waits]
            others = sum(owner != taken.owner for owner in [*owners, *self._running.values()])
            self._running[threading.get_ident()] = taken.owner
            return taken, others


_open_pools: weakref.WeakSet[_Shared] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """End all pools before the interpreter ends under running calls."""
    for shared in list(_open_pools):
        shared.close()
        shared.join()
