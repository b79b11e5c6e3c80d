"""One request on its way through the batcher: laid out, run window by window, joined, answered.

Its stages run in different threads, one after the other; only what calls have answered may be added
by two at once, and that is locked here.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.packing import WindowAccumulator, WindowSlice
from trivet.evaluation.preprocessing import Prepared, Refusal, attempt, failure_of
from trivet.model.aggregate import Outputs
from trivet.records import BackendError, Evaluation, FailedEvaluation, RagExample
from trivet.serve.scheduling.predictions import Judged, StageSeconds
from trivet.serve.scheduling.window_queue import WindowPlace

logger = logging.getLogger(__name__)


class TakenPart(NamedTuple):
    """Windows of one example that stand in one call.

    Attributes:
        example: The example's number in its request.
        part: The windows.
        b: The part's row in the call's answer.
    """

    example: int
    part: WindowSlice
    b: int


class Span(NamedTuple):
    """When a call ran, as ``time.monotonic`` counts."""

    began: float
    ended: float

    @property
    def seconds(self) -> float:
        """How long."""
        return self.ended - self.began


class BatchedRequest:
    """One request.

    Attributes:
        examples: What is to be judged.
        deadline: The moment after which nothing of it may run, as ``time.monotonic`` counts.
        laid_out_at: When its windows came to be known; infinite before.
        over: Whether it was answered or given up; nothing of it needs to run any more.
        future: Where the answer arrives, in the event loop.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        examples: Sequence[RagExample],
        allow_empty_contexts: bool,
        deadline: float,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.examples = tuple(examples)
        self.deadline = deadline
        self.laid_out_at = float("inf")
        self.over = False
        self.future: asyncio.Future[Judged] = loop.create_future()
        self._evaluator = evaluator
        self._allow_empty_contexts = allow_empty_contexts
        self._loop = loop
        self._prepared: list[Prepared | Refusal] = []
        self._gatherings: dict[int, WindowAccumulator] = {}
        self._windows = 0
        self._left = 0  # windows without an answer
        self._lock = threading.Lock()
        self._arrived = time.monotonic()
        self._tokenize_seconds = self._infer_seconds = self._inferred_until = 0.0

    def is_late(self) -> bool:
        """Return whether its time has run out."""
        return self.deadline <= time.monotonic()

    def is_laid_out(self) -> bool:
        """Return whether its windows are known."""
        return self.laid_out_at < float("inf")

    def lay_out(self) -> list[list[int]]:
        """Check, tokenize and cut; return the tokens of each window of each example."""
        started = time.monotonic()
        self._prepared = self._evaluator.prepare(
            self.examples, allow_empty_contexts=self._allow_empty_contexts
        )
        self._gatherings = {
            number: WindowAccumulator(each.layout)
            for number, each in enumerate(self._prepared)
            if isinstance(each, Prepared)
        }
        self.laid_out_at = time.monotonic()
        self._tokenize_seconds = self.laid_out_at - started
        lengths = [
            [len(row) for row in each.layout.rows] if isinstance(each, Prepared) else []
            for each in self._prepared
        ]
        self._windows = self._left = sum(map(len, lengths))
        return lengths

    def take(self, places: Iterable[WindowPlace], first: int) -> list[TakenPart]:
        """Return some windows as an engine takes them; the call's answer has them from ``first``.

        Args:
            places: Which.
            first: How many parts of other requests stand before these in the call.
        """
        rows_of: dict[int, list[int]] = {}
        for place in places:
            rows_of.setdefault(place.example, []).append(place.row)
        return [
            TakenPart(example, self._gatherings[example].take(sorted(rows)), b)
            for b, (example, rows) in enumerate(rows_of.items(), start=first)
        ]

    def add(self, parts: Sequence[TakenPart], outputs: Outputs) -> dict[int, BackendError]:
        """Add what a call answered; return the examples that fail by it, each with its error."""
        with self._lock:
            for each in parts:
                self._gatherings[each.example].add(each.part, outputs, each.b)
            errors = {each.example: self._gatherings[each.example].error for each in parts}
        return {example: error for example, error in errors.items() if error is not None}

    def fail(self, broken: Mapping[int, BackendError]) -> None:
        """Keep the errors that befell some of its examples."""
        with self._lock:
            for example, error in broken.items():
                self._gatherings[example].error = error

    def count_off(self, windows: int, ran: Span) -> bool:
        """Note that some windows need no run any more; return whether none does.

        Args:
            windows: How many were answered or given up.
            ran: The call that they stood in; what another one covers of it counts once.
        """
        with self._lock:
            self._left -= windows
            self._infer_seconds += max(0.0, ran.ended - max(ran.began, self._inferred_until))
            self._inferred_until = max(ran.ended, self._inferred_until)
            return self._left == 0

    def finish(self) -> None:
        """Join, read the verdicts and answer."""
        started = time.monotonic()
        results = tuple(
            self._result(number, example) for number, example in enumerate(self.examples)
        )
        self.answer(self._judged(results, time.monotonic() - started))

    def answer_failed(self, error: BackendError) -> None:
        """Answer every example with an error that concerns them all."""
        failed = tuple(failure_of(error, example) for example in self.examples)
        self.answer(self._judged(failed, 0.0))

    def guard(self, step: Callable[..., None], *arguments: object) -> None:
        """Do a step in a pool, where an error that nobody expects would be seen by nobody."""
        try:
            step(*arguments)
        except BaseException as error:  # a panic in a library written in Rust is no Exception
            logger.exception("a request could not be answered")
            panic = RuntimeError(f"{type(error).__name__}: {error}")
            self.answer(error if isinstance(error, Exception) else panic)

    def answer(self, outcome: Judged | BaseException) -> None:
        """Answer from any thread; only the first answer counts."""
        self.over = True
        call_in_loop(self._loop, self._settle, outcome)

    def _settle(self, outcome: Judged | BaseException) -> None:
        if self.future.done():
            return
        if isinstance(outcome, Judged):
            self.future.set_result(outcome)
        else:
            self.future.set_exception(outcome)

    def _result(self, number: int, example: RagExample) -> Evaluation | FailedEvaluation:
        prepared = self._prepared[number]
        if isinstance(prepared, Refusal):
            return failure_of(prepared, example)
        outputs = self._evaluator.join(self._gatherings[number])
        if isinstance(outputs, BackendError):
            return failure_of(outputs, example)
        verdict = attempt(self._evaluator.finish, prepared, outputs)
        return failure_of(verdict, example) if isinstance(verdict, Refusal) else verdict

    def _judged(
        self, results: tuple[Evaluation | FailedEvaluation, ...], finish_seconds: float
    ) -> Judged:
        known = self._tokenize_seconds + self._infer_seconds + finish_seconds
        queue_seconds = max(0.0, time.monotonic() - self._arrived - known)
        seconds = StageSeconds(
            self._tokenize_seconds, queue_seconds, self._infer_seconds, finish_seconds
        )
        return Judged(results, seconds, self._windows)


def call_in_loop(
    loop: asyncio.AbstractEventLoop, step: Callable[..., None], *arguments: object
) -> None:
    """Call something in the loop's thread; a loop that was closed has nobody left to tell."""
    try:
        loop.call_soon_threadsafe(step, *arguments)
    except RuntimeError:
        if not loop.is_closed():
            raise
        logger.debug("the event loop is closed: %s is not called", step)
