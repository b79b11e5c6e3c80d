"""The batcher: windows of many requests share backend calls.

Requests are preprocessed on arrival and postprocessed in threads of their own, while the backend
runs. If a limit is reached, a request is refused at once: a queue that only grows helps nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.preprocessing import count_characters
from trivet.records import BackendError, RagExample
from trivet.serve.scheduling.admission import Admission
from trivet.serve.scheduling.backend_threads import BackendThreads
from trivet.serve.scheduling.batched_request import BatchedRequest
from trivet.serve.scheduling.predictions import (
    BatcherState,
    Draining,
    Expired,
    Overloaded,
    Predictions,
    Watch,
)

# Longer requests have a thread of their own: a second per megabyte would delay short ones.
_SHORT_CHARACTERS = 30_000
_SHORT_THREADS, _LONG_THREADS, _FINISHERS = 2, 1, 2


class Batcher:
    """Evaluates many requests at once with one evaluator.

    It belongs to the event loop in which it was started; only ``state`` may be called elsewhere.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        *,
        most_requests: int = 512,
        most_windows: int = 4096,
        wait_ms: float = 2.0,
        watch: Watch | None = None,
    ) -> None:
        """Keep the settings; no thread starts yet.

        Args:
            evaluator: Loaded evaluator; others may use it meanwhile.
            most_requests: Maximum accepted requests without an answer.
            most_windows: Maximum waiting windows; a larger request is accepted while none wait.
            wait_ms: Maximum milliseconds that a call which is not full waits for requests that
                are being preprocessed. If there are none, it starts at once.
            watch: Observer of answered calls and refusals.
        """
        self._evaluator = evaluator
        self._watch = watch
        self._requests: set[BatchedRequest] = set()
        self._draining = False
        self._emptied = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._short = ThreadPoolExecutor(_SHORT_THREADS, "trivet-lay-out")
        self._long = ThreadPoolExecutor(_LONG_THREADS, "trivet-lay-out-long")
        self._finishers = ThreadPoolExecutor(_FINISHERS, "trivet-finish")
        window_size = evaluator.bundle.info.window.size
        self._admission = Admission(most_requests, most_windows, window_size)
        self._threads = BackendThreads(
            evaluator,
            self._admission,
            self._finishers,
            wait_seconds=wait_ms / 1000,
            watch=watch,
            on_broken=self._fail_all,
        )

    async def start(self) -> None:
        """Start the threads.

        Raises:
            RuntimeError: It was started before.
        """
        if self._loop is not None:
            raise RuntimeError("a batcher is started once; build another one")
        self._loop = asyncio.get_running_loop()
        # Started by a backend thread, the finishers would inherit its niceness.
        met = threading.Barrier(_FINISHERS + 1)
        for _ in range(_FINISHERS):
            self._finishers.submit(met.wait)
        met.wait()
        self._threads.start(self._loop, self._end_pools)

    async def evaluate(
        self,
        examples: Sequence[RagExample],
        *,
        timeout_seconds: float | None = None,
        allow_empty_contexts: bool = False,
    ) -> Predictions:
        """Evaluate the examples of one request. Cancelling the task drops what has not run.

        Args:
            examples: Examples of the request.
            timeout_seconds: Maximum time until the answer; windows that have not run by then never
                run.
            allow_empty_contexts: As in ``Evaluator.evaluate``.

        Returns:
            One result for each example, in order, also for failures.

        Raises:
            Overloaded: A limit is reached, or its time is too short for what waits.
            Expired: The time ran out.
            Draining: The batcher is being stopped.
            RuntimeError: It was not started.
        """
        loop = self._loop
        if loop is None:
            raise RuntimeError("the batcher was not started; await batcher.start() first")
        request = timer = None
        try:
            if self._draining:
                raise Draining("the server is being stopped; ask another one")
            timeout = float("inf") if timeout_seconds is None else timeout_seconds
            if timeout <= 0:
                raise Expired(f"timeout_seconds ({timeout:g}) leaves no time at all")
            characters = sum(map(count_characters, examples))
            waiting = self._threads.queue.windows
            expected = self._admission.enter(characters, len(self._requests), waiting)
            deadline = time.monotonic() + timeout
            request = BatchedRequest(
                self._evaluator, examples, allow_empty_contexts, deadline, loop
            )
            self._requests.add(request)
            self._emptied.clear()
            if timeout_seconds is not None:
                late = Expired(f"not answered within {timeout_seconds:g} seconds")
                timer = loop.call_later(timeout_seconds, request.answer, late)
            pool = self._short if characters <= _SHORT_CHARACTERS else self._long
            pool.submit(request.guard, self._preprocess, request, characters, expected)
            return await request.future
        except (Overloaded, Expired, Draining, asyncio.CancelledError) as error:
            self._tell_watch(error)
            raise
        finally:
            if timer is not None:
                timer.cancel()
            if request is not None:
                self._let_go(request)

    def check_room(self) -> None:
        """Raise ``Overloaded`` or ``Draining`` before the body of a request is read."""
        try:
            if self._draining:
                raise Draining("the server is being stopped; ask another one")
            self._admission.check_requests(len(self._requests), self._threads.queue.windows)
        except (Overloaded, Draining) as error:
            self._tell_watch(error)
            raise

    def state(self) -> BatcherState:
        """Return the amount of work and the state of the backend."""
        return BatcherState(
            requests=len(self._requests),
            windows=self._threads.queue.windows,
            call_seconds=self._threads.call_seconds,
            draining=self._draining,
            last_error=self._threads.last_error,
        )

    async def drain(self, grace_seconds: float) -> bool:
        """Refuse new requests and finish the accepted ones.

        Those that are not finished after ``grace_seconds`` get ``Draining``; returns whether all
        were finished.
        """
        self._draining = True
        if not self._requests:
            return True
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
        await self._threads.close()

    def _tell_watch(self, refusal: BaseException) -> None:
        reasons: dict[type, str] = {Expired: "deadline", Draining: "draining"}
        reason = reasons.get(type(refusal), "cancelled")
        if self._watch is not None:
            self._watch.rejected(refusal.reason if isinstance(refusal, Overloaded) else reason)

    def _preprocess(self, request: BatchedRequest, characters: int, expected: float) -> None:
        """Preprocess a request in a pool and queue its windows."""
        lengths: list[list[int]] = []
        try:
            if request.deadline <= time.monotonic():
                request.answer(Expired("the time ran out before it was tokenized"))
            if not request.over:
                lengths = request.preprocess()
        finally:
            self._admission.leave(expected, characters, sum(map(len, lengths)))
        if lengths:
            try:
                self._threads.put(request, lengths)
            except Overloaded as refusal:
                request.answer(refusal)  # no fault of the server: not logged as an error
        elif not request.over:
            request.finish()

    def _let_go(self, request: BatchedRequest) -> None:
        """Free the place of a request, and drop its windows that have not run."""
        request.over = True
        self._threads.drop(request)
        self._requests.discard(request)
        if request.future.done() and not request.future.cancelled():
            request.future.exception()  # retrieved, so that asyncio does not warn
        if not self._requests:
            self._emptied.set()

    def _give_up(self, why: str) -> None:
        for request in list(self._requests):
            request.answer(Draining(why))

    def _fail_all(self, error: BackendError) -> None:
        """Answer, from a backend thread, all requests whose windows were lost."""

        def fail() -> None:
            for request in list(self._requests):
                if request.laid_out_at < float("inf"):
                    request.answer_failed(error)

        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                self._loop.call_soon_threadsafe(fail)

    def _end_pools(self) -> None:
        for pool in (self._short, self._long, self._finishers):
            pool.shutdown(wait=True, cancel_futures=True)
