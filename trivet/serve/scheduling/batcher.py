"""The batcher: windows of many requests share backend calls.

Threads preprocess and postprocess while the backend runs, in one thread for each of its workers,
which no error in a call ends. If a limit is reached, a request is refused at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from trivet.errors import BackendError
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.packing import BackendCall
from trivet.evaluation.preprocessing import PreprocessedExample, count_characters
from trivet.records import RagExample
from trivet.serve.scheduling.admission import Admission
from trivet.serve.scheduling.batched_request import (
    BatchedRequest,
    BatcherState,
    Draining,
    Expired,
    Overloaded,
    Predictions,
    Watch,
)
from trivet.serve.scheduling.window_queue import WindowPlace, WindowQueue
from trivet.settings import ThresholdName

logger = logging.getLogger(__name__)

# Longer requests have a thread of their own: a second per megabyte would delay short ones.
_SHORT_CHARACTERS = 30_000
_SHORT_THREADS, _LONG_THREADS, _FINISHERS = 2, 1, 2
_NICER = 5


class Batcher:
    """Evaluates many requests at once with one evaluator.

    It belongs to the event loop in which it was started; only ``state`` may be called elsewhere.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        *,
        max_requests: int = 512,
        max_windows: int = 4096,
        wait_ms: float = 2.0,
        watch: Watch | None = None,
    ) -> None:
        """Keep the settings; no thread starts yet.

        Args:
            evaluator: Loaded evaluator; others may use it meanwhile.
            max_requests: Maximum accepted requests without an answer.
            max_windows: Maximum waiting windows; a larger request is accepted while none wait.
            wait_ms: Maximum wait of a call that is not full for requests being preprocessed.
            watch: Observer of answered calls and refusals.
        """
        self._evaluator = evaluator
        self._wait_seconds = wait_ms / 1000
        self._watch = watch
        self._last_call = time.monotonic()
        window_size = evaluator.bundle.info.window.size
        self._admission = Admission(max_requests, max_windows, window_size)
        self.requests: set[BatchedRequest] = set()
        self._emptied = asyncio.Event()
        self._emptied.set()
        self._draining = self._closing = False
        self._short = ThreadPoolExecutor(_SHORT_THREADS, "trivet-lay-out")
        self._long = ThreadPoolExecutor(_LONG_THREADS, "trivet-lay-out-long")
        self._finishers = ThreadPoolExecutor(_FINISHERS, "trivet-finish")
        self._backend_threads: list[tuple[threading.Thread, Future[None]]] = []
        self._running: dict[int, float] = {}  # begin of the running call of each thread
        self._changed = threading.Condition()  # held to change the queue
        self._queue: WindowQueue[BatchedRequest] = WindowQueue(evaluator.limits)

    async def start(self) -> None:
        """Start the threads, once and before anything is evaluated."""
        # Started by a backend thread, the finishers would inherit its niceness.
        met = threading.Barrier(_FINISHERS)
        list(self._finishers.map(lambda _: met.wait(), range(_FINISHERS)))
        for _ in range(self._evaluator.workers):
            ended: Future[None] = Future()
            ended.set_running_or_notify_cancel()  # from now on it cannot be cancelled
            # A call that hangs cannot be ended; as a daemon it does not keep the process alive.
            thread = threading.Thread(None, self._serve, "trivet-backend", (ended,), daemon=True)
            self._backend_threads.append((thread, ended))
            thread.start()

    async def evaluate(
        self,
        examples: Sequence[RagExample | PreprocessedExample],
        *,
        timeout_seconds: float | None = None,
        allow_empty_contexts: bool = False,
        threshold: float | ThresholdName | None = None,
        strict: bool = False,
    ) -> Predictions:
        """Evaluate the examples of one request. Cancelling the task drops what has not run.

        Raises:
            Overloaded: A limit is reached, or its time is too short for what waits.
            Expired: The time ran out.
            Draining: The batcher is being stopped.
        """
        with self._refusing():
            timeout = float("inf") if timeout_seconds is None else timeout_seconds
            if timeout <= 0:
                raise Expired(f"timeout_seconds ({timeout:g}) leaves no time at all")
            characters = sum(map(count_characters, examples))
            expected = self._admission.enter(characters, len(self.requests), self._queue.windows)
            request = BatchedRequest(
                self._evaluator,
                tuple(examples),
                allow_empty_contexts,
                time.monotonic() + timeout,
                threshold,
                strict,
            )
            self.requests.add(request)
            self._emptied.clear()
            try:
                pool = self._short if characters <= _SHORT_CHARACTERS else self._long
                pool.submit(request.guard, self._preprocess, request, characters, expected)
                async with asyncio.timeout(timeout_seconds):
                    return await asyncio.wrap_future(request.future)
            except TimeoutError:
                raise Expired(f"not answered within {timeout:g} seconds") from None
            finally:
                request.future.cancel()
                with self._changed:
                    self._queue.drop(request)
                self.requests.discard(request)
                if not self.requests:
                    self._emptied.set()

    def check_capacity(self) -> None:
        """Raise ``Overloaded`` or ``Draining`` before the body of a request is read."""
        with self._refusing():
            self._admission.check_requests(len(self.requests), self._queue.windows)

    def state(self) -> BatcherState:
        """Return the amount of work and the state of the backend."""
        began = min(list(self._running.values()), default=None)
        seconds = None if began is None else max(0.0, time.monotonic() - began)
        work = len(self.requests), self._queue.windows
        return BatcherState(*work, seconds, self._draining, self._last_call)

    async def drain(self, grace_seconds: float) -> bool:
        """Refuse new requests and finish the accepted ones; return whether all were finished.

        Those that are not finished after ``grace_seconds`` get ``Draining``.
        """
        self._draining = True
        try:
            async with asyncio.timeout(grace_seconds):
                await self._emptied.wait()
        except TimeoutError:
            self._give_up(f"the server stops, and its grace of {grace_seconds:g} seconds is over")
            await self._emptied.wait()
            return False
        return True

    async def close(self) -> None:
        """Answer every request and end the threads after their calls; cancel it if one hangs."""
        self._draining = True
        self._give_up("the server stopped before it could answer")
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread, ended in self._backend_threads:
            await asyncio.wrap_future(ended)
            thread.join()
        for pool in (self._short, self._long, self._finishers):
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)

    def _give_up(self, why: str) -> None:
        for request in self.requests:
            request.fail(Draining(why))

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        """Refuse requests while draining; tell the observer about every refusal."""
        try:
            if self._draining:
                raise Draining("the server is being stopped; ask another one")
            yield
        except (Overloaded, Expired, Draining, asyncio.CancelledError) as error:
            if self._watch is not None:
                self._watch.rejected(getattr(error, "reason", "cancelled"))
            raise

    def _preprocess(self, request: BatchedRequest, characters: int, expected: float) -> None:
        """Preprocess a request in a pool and queue its windows."""
        lengths: list[list[int]] = []
        try:
            if request.deadline <= time.monotonic():
                raise Expired("the time ran out before it was tokenized")
            if not request.future.done():
                lengths = request.preprocess()
            if lengths:
                with self._changed:
                    self._add(request, lengths)
        finally:  # only now: a call that is not full waits for what is coming
            with self._changed:
                self._admission.leave(expected, characters, request.windows)
                self._changed.notify(request.windows)
        if not lengths:
            request.finish()

    def _add(self, request: BatchedRequest, lengths: list[list[int]]) -> None:
        """Queue the windows of a request, or refuse it."""
        now, own = time.monotonic(), request.windows
        if request.future.done() or request.deadline <= now:
            raise Expired("the time ran out before its windows could wait")
        before = self._queue.windows_before(request.deadline, own)
        left_seconds = request.deadline - now
        self._admission.check_queue(own, before, left_seconds, self._queue.windows)
        self._queue.add(request, lengths, now, request.deadline)

    def _serve(self, ended: Future[None]) -> None:
        """Run calls in a backend thread."""
        # Threads that tokenize and answer should get a core at once; they need it only briefly.
        if sys.platform == "linux":  # elsewhere niceness is that of the process
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) + _NICER)
        while not self._closing:
            try:
                if taken := self._next_call():
                    self._run(taken)
            except Exception as error:
                logger.exception("a backend thread met an error outside a call; it goes on")
                with self._changed:  # the old queue may be broken
                    self._queue = WindowQueue(self._evaluator.limits)
                lost = BackendError(f"a backend thread met {type(error).__name__}: {error}")
                for request in list(self.requests):
                    if request.laid_out_at < float("inf"):
                        request.finish([lost] * len(request.examples))
        ended.set_result(None)

    def _next_call(self) -> list[tuple[BatchedRequest, list[WindowPlace]]]:
        """Wait for windows and take those of the next call; none when closing."""
        with self._changed:
            while not self._closing:
                now = time.monotonic()
                for request in list(self._queue):
                    if request.future.done() or request.deadline <= now:
                        self._queue.drop(request)
                        request.fail(Expired("the time ran out before all windows had run"))
                seconds: float | None = None
                if self._queue.windows:
                    # A call that is not full waits for requests that are being laid out.
                    seconds = 0.0
                    if self._admission.coming and not self._queue.fills_a_call():
                        first = min(request.laid_out_at for request in self._queue)
                        seconds = first + self._wait_seconds - now
                    if seconds <= 0:
                        pace = self._admission.window_seconds, self._admission.call_seconds
                        return self._queue.take(now, *pace)
                self._changed.wait(seconds)
        return []

    def _run(self, taken: Sequence[tuple[BatchedRequest, Sequence[WindowPlace]]]) -> None:
        """Run one call; requests that are complete are finished in another thread."""
        windows = [
            (request.accumulators[place.example], place.row)
            for request, places in taken
            for place in places
        ]
        call, thread = BackendCall(windows), threading.get_ident()
        began = self._running[thread] = time.monotonic()
        running = len(self._running)
        at_once = self._evaluator.workers if self._queue.windows else running
        try:
            call.run(self._evaluator.backend, self._evaluator.pad, at_once)
            call.add()
        except BaseException as error:  # whatever it is, it must not end the thread
            logger.exception("a backend call met an unexpected error")
            call.answer = BackendError(f"the backend call met {type(error).__name__}: {error}")
            call.add()
        ended = time.monotonic()
        shared = (running + len(self._running)) / 2
        del self._running[thread]
        answered = not isinstance(call.answer, BackendError)
        if answered:
            self._last_call = ended
            self._admission.note_call(len(windows), ended - began, shared)
        for request, places in taken:
            gone = len(places)
            for example in {place.example for place in places}:
                if request.accumulators[example].error is not None:
                    with self._changed:  # its other windows need not run
                        gone += self._queue.drop(request, example)
            if request.count_off(gone, began, ended):
                self._finishers.submit(request.guard, request.finish)
        try:
            if answered and self._watch is not None:
                self._watch.called(len(windows), ended - began)
        except Exception:
            logger.exception("the observer of the backend calls failed")
