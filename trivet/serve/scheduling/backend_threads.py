"""The threads that run backend calls, one for each worker; no error in a call ends its thread."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.packing import BackendCall, WindowAccumulator
from trivet.records import BackendError
from trivet.serve.scheduling.admission import Admission
from trivet.serve.scheduling.batched_request import BatchedRequest, CallTime
from trivet.serve.scheduling.predictions import Expired, Watch
from trivet.serve.scheduling.window_queue import WindowPlace, WindowQueue

logger = logging.getLogger(__name__)

_NICER = 5

Taken = list[tuple[BatchedRequest, list[WindowPlace]]]


class BackendThreads:
    """Runs the windows of many requests in backend calls.

    Attributes:
        queue: Windows that wait; changed by these threads and under their lock alone.
        last_error: Last error in a call or in a thread.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        admission: Admission,
        finishers: Executor,
        *,
        wait_seconds: float,
        watch: Watch | None,
        on_broken: Callable[[BackendError], None],
    ) -> None:
        """Keep the settings; ``start`` starts the threads.

        Args:
            evaluator: Evaluator with the backend.
            admission: Admission control, which learns the speed of calls.
            finishers: Threads that postprocess while the next call runs.
            wait_seconds: Longest wait of a call that is not full for coming requests.
            watch: Observer of the answered calls.
            on_broken: Called after an error outside any call, which lost the queue.
        """
        self.queue: WindowQueue[BatchedRequest] = WindowQueue(evaluator.limits)
        self.last_error: str | None = None
        self._evaluator = evaluator
        self._admission = admission
        self._finishers = finishers
        self._wait_seconds = wait_seconds
        self._watch = watch
        self._on_broken = on_broken
        self._changed = threading.Condition()
        self._closing = False
        # Begin of the running call of each worker by ``time.monotonic``; ``None`` between calls.
        self._began: list[float | None] = [None] * evaluator.workers
        self._threads: list[threading.Thread] = []
        self._alive = 0
        self._ended = asyncio.Event()

    @property
    def call_seconds(self) -> float | None:
        """Age of the oldest running call; ``None`` if none runs."""
        running = [began for began in self._began if began is not None]
        return max(0.0, time.monotonic() - min(running)) if running else None

    def start(self, loop: asyncio.AbstractEventLoop, at_end: Callable[[], None]) -> None:
        """Start the threads; the last one to end calls ``at_end``, which may block."""
        self._alive = len(self._began)
        for worker in range(self._alive):
            # A call that hangs cannot be ended; as a daemon it does not keep the process alive.
            thread = threading.Thread(
                target=self._serve, args=(worker, loop, at_end), name="trivet-engine", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def put(self, request: BatchedRequest, lengths: Sequence[Sequence[int]]) -> None:
        """Queue the windows of a request, or raise ``Overloaded``; ``lengths`` as in the queue."""
        own, deadline = sum(map(len, lengths)), request.deadline
        with self._changed:
            now = time.monotonic()
            if request.over or deadline <= now:
                request.answer(Expired("the time ran out before its windows could wait"))
                return
            before = self.queue.windows_before(deadline, own)
            self._admission.check_queue(own, before, deadline - now, self.queue.windows)
            self.queue.add(request, lengths, now, deadline)
            self._changed.notify(own)

    def drop(self, request: BatchedRequest) -> None:
        """Drop the windows of a request that have not run."""
        with self._changed:
            self.queue.drop(request)

    async def close(self) -> None:
        """End the threads after the calls that run."""
        if not self._threads:
            return
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        await self._ended.wait()
        for thread in self._threads:
            thread.join()

    def _serve(
        self, worker: int, loop: asyncio.AbstractEventLoop, at_end: Callable[[], None]
    ) -> None:
        # Threads that tokenize and answer should get a core at once; they need it only briefly.
        # Only Linux has a niceness for each thread; elsewhere it would be that of the process.
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) + _NICER)
        while not self._closing:
            try:
                if taken := self._next_call():
                    self._run(worker, taken)
            except Exception as error:
                logger.exception("a backend thread met an error outside a call; it goes on")
                failure = BackendError(f"a backend thread met {type(error).__name__}: {error}")
                self.last_error = str(failure)
                with self._changed:
                    # The contents of the queue may be what is broken in it.
                    self.queue = WindowQueue(self._evaluator.limits)
                self._on_broken(failure)
        with self._changed:
            self._alive -= 1
            last = not self._alive
        if last:
            at_end()
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(self._ended.set)

    def _next_call(self) -> Taken:
        """Wait for windows and take those of the next call; none when closing."""
        with self._changed:
            while not self._closing:
                now = time.monotonic()
                waiting = list(self.queue)
                for request in waiting:
                    if request.over or request.deadline <= now:
                        self.queue.drop(request)
                        request.answer(Expired("the time ran out before all windows had run"))
                if not self.queue.windows:
                    self._changed.wait()
                    continue
                # A call that is not full waits for requests that are being laid out.
                seconds = 0.0
                if self._admission.coming and not self.queue.fills_a_call():
                    first = min(request.laid_out_at for request in self.queue)
                    seconds = first + self._wait_seconds - now
                if seconds <= 0:
                    pace = self._admission.window_seconds, self._admission.call_seconds
                    return self.queue.take(now, *pace)
                self._changed.wait(seconds)
        return []

    def _run(self, worker: int, taken: Taken) -> None:
        """Run one call; requests that are complete are finished in another thread."""
        rows: dict[WindowAccumulator, list[int]] = {}
        for request, places in taken:
            for place in places:
                rows.setdefault(request.accumulators[place.example], []).append(place.row)
        call = BackendCall(rows)
        windows = sum(map(len, rows.values()))
        began = self._began[worker] = time.monotonic()
        running = len(self._began) - self._began.count(None)
        at_once = len(self._began) if self.queue.windows else running
        try:
            call.run(self._evaluator.backend, self._evaluator.pad, at_once)
            call.add()
        except BaseException as error:  # whatever it is, it must not end the thread
            logger.exception("a backend call met an unexpected error")
            call.answer = BackendError(f"the backend call met {type(error).__name__}: {error}")
            call.add()
        ran = CallTime(began, time.monotonic())
        shared = (running + len(self._began) - self._began.count(None)) / 2
        self._began[worker] = None
        answered = not isinstance(call.answer, BackendError)
        if answered:
            self._admission.note_call(windows, ran.ended - began, shared)
        for request, places in taken:
            self._count_off(request, places, ran)
        if answered and self._watch is not None:
            try:
                self._watch.called(windows, ran.ended - began)
            except Exception as error:
                logger.exception("the observer of the backend calls failed")
                self.last_error = f"the watch met {type(error).__name__}: {error}"

    def _count_off(
        self, request: BatchedRequest, places: Sequence[WindowPlace], ran: CallTime
    ) -> None:
        """Note the windows of a call; the other windows of failed examples are dropped."""
        gone = len(places)
        for example in {place.example for place in places}:
            error = request.accumulators[example].error
            if error is not None:
                self.last_error = str(error)
                with self._changed:
                    gone += self.queue.drop(request, example)
        if request.count_off(gone, ran) and not request.over:
            self._finishers.submit(request.guard, request.finish)
