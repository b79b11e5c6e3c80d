"""One request in the batcher: preprocessed, run window by window, postprocessed, answered."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.packing import WindowAccumulator
from trivet.evaluation.postprocessing import to_evaluation, to_result
from trivet.evaluation.preprocessing import PreprocessedExample, Refusal
from trivet.records import BackendError, Evaluation, RagExample
from trivet.serve.scheduling.predictions import Predictions, StageSeconds

logger = logging.getLogger(__name__)


class CallTime(NamedTuple):
    """Begin and end of a backend call by ``time.monotonic``."""

    began: float
    ended: float


class BatchedRequest:
    """One request; its stages run in different threads, one after the other.

    Attributes:
        examples: Examples of the request.
        deadline: Time by ``time.monotonic`` after which nothing of it may run.
        laid_out_at: Time at which its windows became known; infinite before.
        over: Whether it was answered or given up; nothing of it needs to run any more.
        accumulators: Answers to the windows of each example that passed preprocessing.
        future: The answer, in the event loop.
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
        self.accumulators: list[WindowAccumulator] = []
        self.future: asyncio.Future[Predictions] = loop.create_future()
        self._evaluator = evaluator
        self._allow_empty_contexts = allow_empty_contexts
        self._loop = loop
        self._preprocessed: list[PreprocessedExample | Refusal] = []
        self._windows = 0
        self._left = 0  # windows without an answer
        self._lock = threading.Lock()
        self._arrived = time.monotonic()
        self._tokenize_seconds = self._infer_seconds = self._inferred_until = 0.0

    def preprocess(self) -> list[list[int]]:
        """Preprocess; return the tokens of each window, for each accumulator."""
        started = time.monotonic()
        self._preprocessed = self._evaluator.preprocessor.preprocess(
            self.examples, allow_empty_contexts=self._allow_empty_contexts
        )
        self.accumulators = [
            WindowAccumulator(each.layout)
            for each in self._preprocessed
            if isinstance(each, PreprocessedExample)
        ]
        self.laid_out_at = time.monotonic()
        self._tokenize_seconds = self.laid_out_at - started
        lengths = [[len(row) for row in each.layout.rows] for each in self.accumulators]
        self._windows = self._left = sum(map(len, lengths))
        return lengths

    def count_off(self, windows: int, ran: CallTime) -> bool:
        """Note that windows were answered or dropped; return whether none is left."""
        with self._lock:  # the time that two calls share counts once
            self._left -= windows
            self._infer_seconds += max(0.0, ran.ended - max(ran.began, self._inferred_until))
            self._inferred_until = max(ran.ended, self._inferred_until)
            return self._left == 0

    def finish(self) -> None:
        """Postprocess and answer."""
        started = time.monotonic()
        outcomes = self._evaluator.postprocess(self._preprocessed, self.accumulators, to_evaluation)
        self._answer_all(outcomes, started)

    def answer_failed(self, error: BackendError) -> None:
        """Answer every example with an error that concerns them all."""
        self._answer_all([error] * len(self.examples), time.monotonic())

    def guard(self, step: Callable[..., None], *arguments: object) -> None:
        """Run a step in a pool, where nobody would see an unexpected error."""
        try:
            step(*arguments)
        except BaseException as error:  # a panic in a library written in Rust is no Exception
            logger.exception("a request could not be answered")
            panic = RuntimeError(f"{type(error).__name__}: {error}")
            self.answer(error if isinstance(error, Exception) else panic)

    def answer(self, outcome: Predictions | BaseException) -> None:
        """Answer from any thread; only the first answer counts."""
        self.over = True
        try:
            self._loop.call_soon_threadsafe(self._settle, outcome)
        except RuntimeError:
            if not self._loop.is_closed():
                raise
            logger.debug("the event loop is closed: a request is not answered")

    def _answer_all(self, outcomes: Sequence[Evaluation | Refusal], started: float) -> None:
        results = tuple(map(to_result, outcomes, self.examples))
        now = time.monotonic()
        known = self._tokenize_seconds + self._infer_seconds + now - started
        seconds = StageSeconds(
            tokenize=self._tokenize_seconds,
            queue=max(0.0, now - self._arrived - known),
            infer=self._infer_seconds,
            finish=now - started,
        )
        self.answer(Predictions(results, seconds, self._windows))

    def _settle(self, outcome: Predictions | BaseException) -> None:
        if self.future.done():
            return
        if isinstance(outcome, Predictions):
            self.future.set_result(outcome)
        else:
            self.future.set_exception(outcome)
