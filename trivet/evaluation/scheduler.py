"""The scheduler: windows of many jobs share the threads of one backend.

On a CPU each core is a worker: cores that share a call wait for one another after every matmul. A
pool of the standard library would run all waiting work when the process ends, and accept nothing
more as soon as its main thread has ended.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable

from trivet.backends.backend import Backend, workers_of
from trivet.errors import BackendError
from trivet.evaluation.packing import BackendCall, BatchLimits
from trivet.evaluation.window_queue import Job, WindowQueue
from trivet.model.aggregate import Outputs

logger = logging.getLogger(__name__)

_AT_EXIT_SECONDS = 5.0  # wait for each running call; a backend that hangs must not stop the end
_schedulers: weakref.WeakSet[Scheduler] = weakref.WeakSet()


class Scheduler:
    """Runs jobs, one call in each worker of the backend at a time. Thread-safe.

    Attributes:
        workers: Number of calls that run at once.
        queue: Jobs that wait.
        last_call: Time of the last answered call, by ``time.monotonic``.
    """

    def __init__(
        self,
        backend: Backend,
        pad: int,
        limits: BatchLimits,
        *,
        max_windows: float = float("inf"),
        wait_seconds: float = 0.0,
        niceness: int = 0,
        called: Callable[[int, float], None] | None = None,
    ) -> None:
        """Keep the settings; threads start with the first job.

        Args:
            backend: Backend; others may use it meanwhile.
            pad: Token id of padding.
            limits: Limits of a call.
            max_windows: Maximum waiting windows; a larger job is accepted while none wait.
            wait_seconds: Maximum wait of a call that is not full for jobs that are ``coming``.
            niceness: Number that is added to the niceness of the threads, on Linux.
            called: Observer of answered calls: their number of windows and their seconds.
        """
        self.workers = workers_of(backend)
        self.last_call = time.monotonic()
        self._backend, self._pad, self._limits = backend, pad, limits
        self._max_windows, self._wait_seconds = max_windows, wait_seconds
        self._niceness, self._called = niceness, called
        self._open()
        _schedulers.add(self)

    def _open(self) -> None:
        self._process = os.getpid()
        self._changed = threading.Condition()  # held to change what follows
        self.queue = WindowQueue(self._limits, self._max_windows)
        self._jobs: set[Job] = set()  # submitted and not done
        self._coming = 0
        self._running: dict[int, float] = {}  # begin of the running call of each thread
        self._threads: list[threading.Thread] = []
        self._closed = False

    @property
    def call_seconds(self) -> float | None:
        """Age of the oldest running call."""
        began = min(list(self._running.values()), default=None)
        return None if began is None else max(0.0, time.monotonic() - began)

    @property
    def is_alive(self) -> bool:
        """Whether a thread runs."""
        return any(thread.is_alive() for thread in self._threads)

    def submit(self, job: Job) -> Job:
        """Queue a job, and return it. A closed scheduler cancels it.

        Raises:
            Overloaded: The queue is full, or it would hardly end in time.
        """
        if self._process != os.getpid():
            self._open()  # the threads stayed behind in the process that this one was forked from
        if not job.windows:
            job.count_off(0, 0.0, 0.0)
            return job
        with self._changed:
            if self._closed:
                job.cancel()
                return job
            self.queue.add(job, time.monotonic())
            self._jobs.add(job)
            job.done.add_done_callback(lambda _: self._jobs.discard(job))
            while len(self._threads) < self.workers:
                # A call that hangs cannot be ended; as a daemon it does not keep the process alive.
                thread = threading.Thread(target=self._serve, name="trivet-backend", daemon=True)
                thread.start()
                self._threads.append(thread)
            self._changed.notify_all()
        return job

    def expect(self, jobs: int) -> None:
        """Count jobs that are coming, or, below 0, that came: a call may wait for these."""
        with self._changed:
            self._coming += jobs
            self._changed.notify_all()

    def close(self, join_seconds: float = 0.0) -> None:
        """Cancel what waits, let the threads end after their calls, and wait for these."""
        if self._process != os.getpid():
            return  # forked: a lock that was held then will never be released here
        with self._changed:
            self._closed = True
            for job in list(self._jobs):
                job.cancel()
            self._changed.notify_all()
        for thread in self._threads if join_seconds else ():
            thread.join(join_seconds)

    def _serve(self) -> None:
        """Run calls in a thread until the scheduler is closed."""
        if self._niceness and sys.platform == "linux":  # elsewhere it is that of the process
            with contextlib.suppress(OSError):
                nice = os.getpriority(os.PRIO_PROCESS, 0) + self._niceness
                os.setpriority(os.PRIO_PROCESS, 0, nice)
        while not self._closed:
            try:
                self._run_next()
            except Exception as error:
                logger.exception("a backend thread met an error outside a call; it goes on")
                lost = BackendError(f"a backend thread met {type(error).__name__}: {error}")
                with self._changed:  # the old queue may be broken
                    self.queue = WindowQueue(self._limits, self._max_windows)
                    for job in list(self._jobs):
                        job.fail(lost)

    def _run_next(self) -> None:
        """Wait for windows and run one call; return without one when closing."""
        with self._changed:
            while (seconds := self._seconds_to_wait()) != 0.0:
                if self._closed:
                    return
                self._changed.wait(seconds)
            job, taken = self.queue.take(time.monotonic())
            others = self.queue.windows - len(job.places) + len(self._running) - (job.running - 1)
            self._running[threading.get_ident()] = began = time.monotonic()
            running, number = len(self._running), 0 if job.shared else job.begun
            # The last calls of a job may be too few for all workers.
            rest = job.calls % self.workers
            at_once = others + (rest if 0 <= job.calls - job.begun < rest else self.workers)
        windows = [
            (window.accumulator, window.row) for places in taken.values() for window in places
        ]
        call = BackendCall(windows, number)
        try:
            if call.is_needed():
                call.run(self._backend, self._pad, at_once)
            call.add()
        except BaseException as error:  # whatever it is, it must not end the thread
            logger.exception("a backend call met an unexpected error")
            call.answer = BackendError(f"the backend call met {type(error).__name__}: {error}")
            call.add()
        ended = time.monotonic()
        answered = isinstance(call.answer, Outputs)
        with self._changed:
            shared = (running + len(self._running)) / 2
            del self._running[threading.get_ident()]
            job.running -= 1
            if answered:
                self.queue.note_call(len(windows), ended - began, shared)
                self.last_call = ended
        for owner, places in taken.items():
            owner.count_off(len(places), began, ended)
        if answered and self._called is not None:
            try:
                self._called(len(windows), ended - began)
            except Exception:
                logger.exception("the observer of the backend calls failed")

    def _seconds_to_wait(self) -> float | None:
        """Return how long to wait for the next call; ``None`` until something changes."""
        now = time.monotonic()
        self.queue.drop_ended(now)
        if not self.queue.windows:
            return None
        if not self._coming or self.queue.fills_a_call():
            return 0.0
        return max(0.0, self.queue.since() + self._wait_seconds - now)


@atexit.register
def _close_all() -> None:
    """End all threads before the interpreter ends under running calls."""
    for scheduler in list(_schedulers):
        scheduler.close(_AT_EXIT_SECONDS)
