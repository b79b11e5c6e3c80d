"""The batcher: requests of an event loop share one scheduler. Knows no HTTP.

Threads prepare and finish requests while the backend runs. If a limit is reached, a request is
refused at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar, Unpack

from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.example_batch import ExampleBatch
from trivet.evaluation.preprocessing import PreprocessedExample, count_characters
from trivet.evaluation.scheduler import Scheduler
from trivet.evaluation.window_queue import Expired, Overloaded
from trivet.interface import Options, Result
from trivet.records import RagExample

T = TypeVar("T")

# Longer requests have a thread of their own: a second per megabyte would delay short ones.
_SHORT_CHARACTERS = 30_000
_SHORT_THREADS, _LONG_THREADS, _FINISHERS = 2, 1, 2
# Threads that tokenize and answer should get a core at once; they need it only briefly.
_NICER = 5
_CLOSING_SECONDS = 0.01


class Draining(RuntimeError):
    """The batcher accepts no more requests, or could not finish this one within the grace."""

    reason = "draining"


@dataclass(frozen=True, slots=True)
class StageSeconds:
    """Durations of the stages of one request."""

    tokenize: float  # checking, tokenizing and laying out
    queue: float  # waiting for a thread or for the backend
    infer: float  # while windows of it were in the backend
    finish: float  # joining and reading the verdicts


@dataclass(frozen=True, slots=True)
class Predictions:
    """Answer to one request: a result for each example, and its number of windows."""

    results: tuple[Result, ...]
    seconds: StageSeconds
    windows: int


@dataclass(frozen=True, slots=True)
class BatcherState:
    """State of the batcher at one moment."""

    requests: int  # accepted and not answered
    windows: int  # waiting
    call_seconds: float | None  # age of the oldest running backend call
    draining: bool  # whether new requests are refused
    last_call: float = 0.0  # time of the last answered call, by time.monotonic


class Watch(Protocol):
    """Observer of the batcher. Called from backend threads and the event loop: must be quick."""

    def called(self, windows: int, seconds: float) -> None:
        """Note an answered backend call: its number of windows and its duration."""

    def rejected(self, reason: str) -> None:
        """Note a refusal: requests, windows, time, deadline, draining or cancelled."""


class Batcher:
    """Evaluates many requests at once with one evaluator.

    It belongs to the event loop in which it is used; only ``state`` may be called elsewhere.
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
        self._max_requests = max_requests
        self._watch = watch
        self._scheduler = Scheduler(
            *(evaluator.backend, evaluator.pad, evaluator.limits),
            max_windows=max_windows,
            wait_seconds=wait_ms / 1000,
            niceness=_NICER,
            called=None if watch is None else watch.called,
        )
        self._requests: set[asyncio.Task[Predictions]] = set()
        self._draining, self._why = False, ""
        self._short = ThreadPoolExecutor(_SHORT_THREADS, "trivet-prepare")
        self._long = ThreadPoolExecutor(_LONG_THREADS, "trivet-prepare-long")
        self._finishers = ThreadPoolExecutor(_FINISHERS, "trivet-finish")

    async def evaluate(
        self,
        examples: Sequence[RagExample | PreprocessedExample],
        *,
        timeout_seconds: float = math.inf,
        **options: Unpack[Options],
    ) -> Predictions:
        """Evaluate the examples of one request. Cancelling the task drops what has not run.

        Raises:
            Overloaded: A limit is reached, or its time is too short for what waits.
            Expired: The time ran out.
            Draining: The batcher is being stopped.
        """
        with self._refusing():
            if timeout_seconds <= 0:
                raise Expired(f"timeout_seconds ({timeout_seconds:g}) leaves no time at all")
            self._check()
            work = self._answer(tuple(examples), time.monotonic() + timeout_seconds, options)
            request = asyncio.create_task(work)
            self._requests.add(request)
            try:
                limit = timeout_seconds if math.isfinite(timeout_seconds) else None
                await asyncio.wait([request], timeout=limit)
                if not request.done():
                    raise Expired(f"not answered within {timeout_seconds:g} seconds")
                if request.cancelled():
                    raise Draining(self._why)
                return request.result()
            finally:
                request.cancel()
                self._requests.discard(request)

    def check_capacity(self) -> None:
        """Raise ``Overloaded`` or ``Draining`` before the body of a request is read."""
        with self._refusing():
            self._check()

    def state(self) -> BatcherState:
        """Return the amount of work and the state of the backend."""
        scheduler = self._scheduler
        work = len(self._requests), scheduler.queue.windows, scheduler.call_seconds
        return BatcherState(*work, self._draining, scheduler.last_call)

    async def drain(self, grace_seconds: float) -> bool:
        """Refuse new requests and finish the accepted ones; return whether all were finished.

        Those that are not finished after ``grace_seconds`` get ``Draining``.
        """
        self._draining = True
        if self._requests:
            await asyncio.wait(self._requests, timeout=grace_seconds)
        return not await self._give_up(
            f"the server stops, and its grace of {grace_seconds:g} seconds is over"
        )

    async def close(self) -> None:
        """Answer every request and end the threads after their calls; cancel it if one hangs."""
        self._draining = True
        await self._give_up("the server stopped before it could answer")
        self._scheduler.close()
        while self._scheduler.is_alive:
            await asyncio.sleep(_CLOSING_SECONDS)
        for pool in (self._short, self._long, self._finishers):
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)

    async def _give_up(self, why: str) -> int:
        """End the requests without an answer; return their number."""
        self._why = why
        given_up = [request for request in self._requests if not request.done()]
        for request in given_up:
            request.cancel()
        if given_up:
            await asyncio.wait(given_up)
        return len(given_up)

    def _check(self) -> None:
        requests, queue = len(self._requests), self._scheduler.queue
        if requests >= self._max_requests:
            what = f"{requests} requests are being served, the most there may be"
            raise queue.overloaded("requests", what)
        if (windows := queue.windows) >= queue.max_windows:
            raise queue.overloaded("windows", f"{windows} windows wait, the most that may")

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

    async def _answer(
        self,
        examples: Sequence[RagExample | PreprocessedExample],
        deadline: float,
        options: Options,
    ) -> Predictions:
        """Do the steps of the evaluator, each in its threads."""
        arrived, run = time.monotonic(), asyncio.get_running_loop().run_in_executor
        characters = sum(map(count_characters, examples))
        pool = self._short if characters <= _SHORT_CHARACTERS else self._long
        self._scheduler.expect(1)
        try:
            prepare = functools.partial(self._prepare, examples, deadline, options)
            batch, tokenized = await run(pool, _timed, prepare)
            self._scheduler.submit(batch.job)
        finally:  # only now: a call that is not full waits for what is coming
            self._scheduler.expect(-1)
        job = batch.job
        await asyncio.wrap_future(job.done)
        results, finished = await run(self._finishers, _timed, batch.results)
        known = tokenized + job.infer_seconds + finished
        queued = max(0.0, time.monotonic() - arrived - known)
        seconds = StageSeconds(tokenized, queued, job.infer_seconds, finished)
        return Predictions(tuple(results), seconds, job.windows)

    def _prepare(
        self,
        examples: Sequence[RagExample | PreprocessedExample],
        deadline: float,
        options: Options,
    ) -> ExampleBatch:
        if deadline <= time.monotonic():
            raise Expired("the time ran out before it was tokenized")
        batch = self._evaluator.prepare(examples, **options)
        batch.job.deadline, batch.job.shared = deadline, True
        return batch


def _timed(step: Callable[[], T]) -> tuple[T, float]:
    """Return the result of a step and its seconds."""
    started = time.monotonic()
    try:
        return step(), time.monotonic() - started
    except Exception:
        raise
    except BaseException as error:  # a panic in a library written in Rust
        raise RuntimeError(f"{type(error).__name__}: {error}") from error
