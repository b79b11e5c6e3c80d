"""Windows of many requests share engine calls: asyncio outside, the engine's threads inside.

Requests are laid out on arrival in threads of their own, while the engine runs. Its threads fill
each call with windows of any mix of requests, and what it answers is joined and read by others
still. Where the bounds are met, a request is refused at once: a queue that only grows helps
nobody.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.preprocessing import count_characters
from trivet.records import BackendError, RagExample
from trivet.serve.scheduling.admission import Admission
from trivet.serve.scheduling.backend_threads import BackendThreads
from trivet.serve.scheduling.batched_request import BatchedRequest, call_in_loop
from trivet.serve.scheduling.predictions import (
    BatcherState,
    Draining,
    Expired,
    Judged,
    Overloaded,
    StageSeconds,
    Watch,
)

__all__ = [
    "Batcher",
    "BatcherState",
    "Draining",
    "Expired",
    "Judged",
    "Overloaded",
    "StageSeconds",
    "Watch",
]

# Longer requests are tokenized by their own worker: a second a megabyte would delay short ones.
_SHORT_CHARACTERS = 30_000
_SHORT_LANES, _LONG_LANES, _FINISHERS = 2, 1, 2


class Batcher:
    """Judges many requests at once with one evaluator.

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
            evaluator: Loaded; others may use it meanwhile.
            most_requests: Accepted and not answered; one more is refused.
            most_windows: Laid out and not run. A request with more windows than that is accepted
                while none wait.
            wait_ms: The most milliseconds that a call which is not full waits for requests that
                are being laid out. Where none are, it starts at once.
            watch: Is told of every engine call that was answered, and of every refusal.
        """
        self._evaluator = evaluator
        self._watch = watch
        self._requests: set[BatchedRequest] = set()
        self._draining = False
        self._emptied = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._short_lane = ThreadPoolExecutor(_SHORT_LANES, "trivet-lay-out")
        self._long_lane = ThreadPoolExecutor(_LONG_LANES, "trivet-lay-out-long")
        self._finishers = ThreadPoolExecutor(_FINISHERS, "trivet-finish")
        window_size = evaluator.bundle.info.window.size
        self._admission = Admission(most_requests, most_windows, window_size)
        self._engine = BackendThreads(
            evaluator,
            self._admission,
            self._finishers,
            wait_seconds=wait_ms / 1000,
            watch=watch,
            on_broken=self._fail_all,
        )

    async def start(self) -> None:
        """Start the engine's threads.

        Raises:
            RuntimeError: It was started before.
        """
        if self._loop is not None:
            raise RuntimeError("a batcher is started once; build another one")
        self._loop = asyncio.get_running_loop()
        self._start_finishers()
        self._engine.start(self._loop, self._end_pools)

    async def judge(
        self,
        examples: Sequence[RagExample],
        *,
        timeout_seconds: float | None = None,
        allow_empty_contexts: bool = False,
    ) -> Judged:
        """Judge the examples of one request. Cancelling the task drops what has not run.

        Args:
            examples: What to judge.
            timeout_seconds: How long the answer may take; what has not run by then never runs.
            allow_empty_contexts: As in ``Evaluator.evaluate``.

        Returns:
            One result an example, in order, also for those that fail.

        Raises:
            Overloaded: A bound is met, or its time is too short for what waits.
            Expired: The time ran out.
            Draining: The batcher is being stopped.
            RuntimeError: It was not started.
        """
        if self._loop is None:
            raise RuntimeError("the batcher was not started; await batcher.start() first")
        try:
            return await self._judge(self._loop, examples, timeout_seconds, allow_empty_contexts)
        except (Overloaded, Expired, Draining, asyncio.CancelledError) as error:
            self._tell_watch(error)
            raise

    def check_room(self) -> None:
        """Refuse a request before anything of it is read.

        Raises:
            Overloaded: There are as many requests as there may be.
            Draining: The batcher is being stopped.
        """
        try:
            self._check_open()
            self._admission.check_requests(len(self._requests), self._engine.windows)
        except (Overloaded, Draining) as error:
            self._tell_watch(error)
            raise

    def state(self) -> BatcherState:
        """Return how much there is to do, and what the engine does."""
        return BatcherState(
            requests=len(self._requests),
            windows=self._engine.windows,
            call_seconds=self._engine.call_seconds,
            draining=self._draining,
            last_error=self._engine.last_error,
        )

    async def drain(self, grace_seconds: float) -> bool:
        """Refuse new requests and finish those that were accepted.

        Args:
            grace_seconds: How long they have; who is not answered by then gets ``Draining``.

        Returns:
            Whether all were finished.
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
        """Stop: no request is left without an answer, and no thread is left.

        Waits for the engine call that runs; who cannot wait for an engine that hangs cancels this.
        """
        self._draining = True
        self._give_up("the server stopped before it could answer")
        await self._engine.close()

    async def _judge(
        self,
        loop: asyncio.AbstractEventLoop,
        examples: Sequence[RagExample],
        timeout_seconds: float | None,
        allow_empty_contexts: bool,
    ) -> Judged:
        self._check_open()
        timeout = float("inf") if timeout_seconds is None else timeout_seconds
        if timeout <= 0:
            raise Expired(f"timeout_seconds ({timeout:g}) leaves no time at all")
        characters = sum(map(count_characters, examples))
        expected = self._admission.enter(characters, len(self._requests), self._engine.windows)
        deadline = time.monotonic() + timeout
        request = BatchedRequest(self._evaluator, examples, allow_empty_contexts, deadline, loop)
        timer = None
        if timeout_seconds is not None:
            late = Expired(f"not answered within {timeout_seconds:g} seconds")
            timer = loop.call_later(timeout_seconds, request.answer, late)
        self._requests.add(request)
        self._emptied.clear()
        worker = self._short_lane if characters <= _SHORT_CHARACTERS else self._long_lane
        try:
            worker.submit(request.guard, self._lay_out, request, characters, expected)
            return await request.future
        finally:
            if timer is not None:
                timer.cancel()
            self._let_go(request)

    def _start_finishers(self) -> None:
        """Start their threads here: started by the engine's, they would be as nice as those."""
        met = threading.Barrier(_FINISHERS + 1)
        for _ in range(_FINISHERS):
            self._finishers.submit(met.wait)
        met.wait()

    def _check_open(self) -> None:
        if self._draining:
            raise Draining("the server is being stopped; ask another one")

    def _tell_watch(self, refusal: BaseException) -> None:
        if self._watch is not None:
            self._watch.rejected(_reason(refusal))

    def _lay_out(self, request: BatchedRequest, characters: int, expected: float) -> None:
        """In a worker: lay a request out and put its windows into the queue."""
        lengths: list[list[int]] = []
        try:
            if request.is_late():
                request.answer(Expired("the time ran out before it was tokenized"))
            if not request.over:
                lengths = request.lay_out()
        finally:
            self._admission.leave(expected, characters, sum(map(len, lengths)))
        if any(lengths):
            try:
                self._engine.put(request, lengths)
            except Overloaded as refusal:
                request.answer(refusal)  # no fault of the server's: nothing for its log
        elif not request.over:
            request.finish()

    def _let_go(self, request: BatchedRequest) -> None:
        """Free a request's place, and forget what of it has not run."""
        request.over = True
        self._engine.drop(request)
        self._requests.discard(request)
        if request.future.done() and not request.future.cancelled():
            request.future.exception()  # asked for, so that asyncio does not call it forgotten
        if not self._requests:
            self._emptied.set()

    def _give_up(self, why: str) -> None:
        for request in list(self._requests):
            request.answer(Draining(why))

    def _fail_all(self, error: BackendError) -> None:
        """From one of the engine's threads: answer all whose windows were lost."""

        def fail() -> None:
            for request in list(self._requests):
                if request.is_laid_out():
                    request.answer_failed(error)

        if self._loop is not None:
            call_in_loop(self._loop, fail)

    def _end_pools(self) -> None:
        for pool in (self._short_lane, self._long_lane, self._finishers):
            pool.shutdown(wait=True, cancel_futures=True)


def _reason(error: BaseException) -> str:
    """Return by what name a refusal is counted."""
    if isinstance(error, Overloaded):
        return error.reason
    if isinstance(error, Expired):
        return "deadline"
    return "draining" if isinstance(error, Draining) else "cancelled"
