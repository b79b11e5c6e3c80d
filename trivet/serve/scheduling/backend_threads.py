"""The threads that feed the engine, one a worker: fill a call, run it, hand on what it answered.

Nothing that happens in a call may end its thread: what fails is the error of the examples that were
in the call, and the next call is made.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor

from trivet.backends.threads import are_few
from trivet.evaluation.evaluator import Evaluator
from trivet.model.aggregate import Outputs
from trivet.records import BackendError
from trivet.serve.scheduling.admission import Admission
from trivet.serve.scheduling.batched_request import BatchedRequest, Span, TakenPart, call_in_loop
from trivet.serve.scheduling.predictions import Expired, Watch
from trivet.serve.scheduling.window_queue import WindowPlace, WindowQueue

logger = logging.getLogger(__name__)

_NICER = 5

Call = list[tuple[BatchedRequest, list[WindowPlace]]]


def _let_others_go_first() -> None:
    """Let those who read and answer have a core at once; they need it for a moment.

    Only Linux knows a niceness of threads; elsewhere it would be that of the whole process.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) + _NICER)


class BackendThreads:
    """Runs the windows of many requests, as many in a call, and calls at once, as the engine likes.

    Attributes:
        last_error: What last went wrong in a call or in a thread.
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
        """Get ready; ``start`` starts them.

        Args:
            evaluator: Whose engine runs.
            admission: Says whether more is coming, and learns how long calls take.
            finishers: Where answers are joined and read, while the next call runs.
            wait_seconds: How long a call that is not full waits for what is coming.
            watch: Is told of each call that was answered.
            on_broken: Is told, in its thread, of an error outside any call: what waited is lost.
        """
        self.last_error: str | None = None
        self._evaluator = evaluator
        self._admission = admission
        self._finishers = finishers
        self._wait_seconds = wait_seconds
        self._watch = watch
        self._on_broken = on_broken
        self._changed = threading.Condition()
        self._queue: WindowQueue[BatchedRequest] = WindowQueue(evaluator.limits)
        self._closing = False
        # When the call of each worker began, as ``time.monotonic`` counts; ``None`` between calls.
        self._began: list[float | None] = [None] * evaluator.workers
        self._threads: list[threading.Thread] = []
        self._running = 0  # threads
        self._ended = asyncio.Event()

    @property
    def windows(self) -> int:
        """How many windows wait."""
        return self._queue.windows

    @property
    def call_seconds(self) -> float | None:
        """How long the oldest call that runs has been running; ``None`` where none runs."""
        running = [began for began in self._began if began is not None]
        return max(0.0, time.monotonic() - min(running)) if running else None

    def start(self, loop: asyncio.AbstractEventLoop, at_end: Callable[[], None]) -> None:
        """Start the threads.

        Args:
            loop: Where ``close`` will be awaited.
            at_end: The last thing that the last thread does; may take its time.
        """
        for worker in range(len(self._began)):
            # A call that hangs cannot be ended; as a daemon it does not keep the process alive.
            thread = threading.Thread(
                target=self._serve, args=(worker, loop, at_end), name="trivet-engine", daemon=True
            )
            thread.start()
            self._threads.append(thread)
            with self._changed:
                self._running += 1

    def put(self, request: BatchedRequest, lengths: Sequence[Sequence[int]]) -> None:
        """Let the windows of a request wait for their turn.

        Args:
            request: Whose they are.
            lengths: For each of its examples the tokens of each window.

        Raises:
            Overloaded: There is no room for them, or no time.
        """
        own, deadline = sum(map(len, lengths)), request.deadline
        with self._changed:
            now, waiting = time.monotonic(), self._queue.windows
            if request.over or request.is_late():
                request.answer(Expired("the time ran out before its windows could wait"))
                return
            self._admission.check_windows(own, waiting)
            before = self._queue.windows_before(deadline, own)
            self._admission.check_time(own, before, deadline - now, waiting)
            self._queue.add(request, lengths, now, deadline)
            self._changed.notify(own)

    def drop(self, request: BatchedRequest) -> None:
        """Forget the windows of a request that have not run."""
        with self._changed:
            self._queue.drop(request)

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
        _let_others_go_first()
        while not self._closing:
            try:
                if call := self._next_call():
                    self._run(worker, call)
            except Exception as error:
                logger.exception("an engine thread met an error outside a call; it goes on")
                self._lose_all(error)
        with self._changed:
            self._running -= 1
            last = not self._running
        if last:
            at_end()
            call_in_loop(loop, self._ended.set)

    def _next_call(self) -> Call:
        """Wait for windows and take those of the next call; none are taken once it is closing."""
        with self._changed:
            while not self._closing:
                self._drop_what_is_over()
                seconds = self._worth_waiting() if self._queue.windows else None
                if seconds is None or seconds > 0:
                    self._changed.wait(seconds)
                else:
                    pace = self._admission.window_seconds, self._admission.call_seconds
                    return self._queue.take(time.monotonic(), *pace)
        return []

    def _drop_what_is_over(self) -> None:
        """Forget the windows of who cannot be answered in time, or was answered already."""
        for request in [each for each in self._queue if each.over or each.is_late()]:
            self._queue.drop(request)
            request.answer(Expired("the time ran out before all windows had run"))

    def _worth_waiting(self) -> float:
        """Return for how many seconds the call may still wait to be fuller."""
        if not self._admission.coming or self._queue.fills_a_call():
            return 0.0
        first = min(request.laid_out_at for request in self._queue)
        return first + self._wait_seconds - time.monotonic()

    def _run(self, worker: int, call: Call) -> None:
        """Run one call and add what it answers; who has all of its answer is joined elsewhere."""
        windows = sum(len(places) for _, places in call)
        began = self._began[worker] = time.monotonic()
        running = self._count_running()
        few = not self.windows and are_few(running, len(self._began))
        answered = self._answer(call, all_threads=few)
        ran = Span(began, time.monotonic())
        at_once = (running + self._count_running()) / 2
        self._began[worker] = None
        if isinstance(answered, BackendError):
            for request, places in call:
                broken = dict.fromkeys((place.example for place in places), answered)
                request.fail(broken)
                gone = len(places) + self._drop_broken(request, broken)
                request.guard(self._count_off, request, gone, ran)
        else:
            self._admission.note_call(windows, ran.seconds, at_once)
            outputs, parts = answered
            for (request, places), own in zip(call, parts, strict=True):
                request.guard(self._add, request, own, outputs, len(places), ran)
            self._tell_watch(windows, ran.seconds)

    def _count_running(self) -> int:
        return sum(began is not None for began in self._began)

    def _answer(
        self, call: Call, *, all_threads: bool
    ) -> tuple[Outputs, list[list[TakenPart]]] | BackendError:
        """Return what the engine answers, with the parts that each request has in it."""
        parts: list[list[TakenPart]] = []
        try:
            for request, places in call:
                parts.append(request.take(places, first=sum(map(len, parts))))
            return self._evaluator.run(
                [each.part for own in parts for each in own], all_threads=all_threads
            ), parts
        except BackendError as error:
            return error
        except BaseException as error:  # whatever it is, it may not end the thread
            logger.exception("an engine call met an unexpected error")
            return BackendError(f"the engine call met {type(error).__name__}: {error}")

    def _add(
        self,
        request: BatchedRequest,
        parts: Sequence[TakenPart],
        outputs: Outputs,
        windows: int,
        ran: Span,
    ) -> None:
        broken = request.add(parts, outputs)
        self._count_off(request, windows + self._drop_broken(request, broken), ran)

    def _drop_broken(self, request: BatchedRequest, broken: Mapping[int, BackendError]) -> int:
        """Forget what waits of examples that failed; return how many windows that were."""
        for error in broken.values():
            self.last_error = str(error)
        with self._changed:
            return sum(self._queue.drop(request, example) for example in broken)

    def _count_off(self, request: BatchedRequest, windows: int, ran: Span) -> None:
        if request.count_off(windows, ran) and not request.over:
            self._finishers.submit(request.guard, request.finish)

    def _lose_all(self, error: Exception) -> None:
        """Go on with an empty queue: what is broken in it may be what was in it."""
        failure = BackendError(f"an engine thread met {type(error).__name__}: {error}")
        self.last_error = str(failure)
        with self._changed:
            self._queue = WindowQueue(self._evaluator.limits)
        self._on_broken(failure)

    def _tell_watch(self, windows: int, seconds: float) -> None:
        if self._watch is None:
            return
        try:
            self._watch.called(windows, seconds)
        except Exception as error:
            logger.exception("what watches the engine's calls failed")
            self.last_error = f"the watch met {type(error).__name__}: {error}"
