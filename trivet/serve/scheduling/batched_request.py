"""One request in the batcher: preprocessed, run window by window, postprocessed, answered."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError

from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.packing import WindowAccumulator
from trivet.evaluation.postprocessing import to_evaluation, to_result
from trivet.evaluation.preprocessing import PreprocessedExample, Refusal
from trivet.records import BackendError, Evaluation, RagExample
from trivet.serve.scheduling.predictions import Predictions, StageSeconds

logger = logging.getLogger(__name__)


class BatchedRequest:
    """One request; its stages run in different threads, one after the other.

    Attributes:
        deadline: Time by ``time.monotonic`` after which nothing of it may run.
        laid_out_at: Time at which its windows became known; infinite before.
        accumulators: Answers to the windows of each example that passed preprocessing.
        future: The answer. Once it is done or cancelled, nothing of the request needs to run.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        examples: Sequence[RagExample],
        allow_empty_contexts: bool,
        deadline: float,
    ) -> None:
        self.deadline = deadline
        self.laid_out_at = float("inf")
        self.accumulators: list[WindowAccumulator] = []
        self.future: Future[Predictions] = Future()
        self._evaluator = evaluator
        self._examples = tuple(examples)
        self._allow_empty_contexts = allow_empty_contexts
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
            self._examples, allow_empty_contexts=self._allow_empty_contexts
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

    def count_off(self, windows: int, began: float, ended: float) -> bool:
        """Note windows that were answered in a call, or dropped; return whether none is left."""
        with self._lock:  # the time that two calls share counts once
            self._left -= windows
            self._infer_seconds += max(0.0, ended - max(began, self._inferred_until))
            self._inferred_until = max(ended, self._inferred_until)
            return self._left == 0

    def finish(self, failure: BackendError | None = None) -> None:
        """Postprocess and answer; with a ``failure``, answer every example with it."""
        started = time.monotonic()
        outcomes: Sequence[Evaluation | Refusal]
        if failure is None:
            outcomes = self._evaluator.postprocess(
                self._preprocessed, self.accumulators, to_evaluation
            )
        else:
            outcomes = [failure] * len(self._examples)
        results = tuple(map(to_result, outcomes, self._examples))
        now = time.monotonic()
        known = self._tokenize_seconds + self._infer_seconds + now - started
        seconds = StageSeconds(
            tokenize=self._tokenize_seconds,
            queue=max(0.0, now - self._arrived - known),
            infer=self._infer_seconds,
            finish=now - started,
        )
        self.answer(Predictions(results, seconds, self._windows))

    def guard(self, step: Callable[..., None], *arguments: object) -> None:
        """Run a step in a pool, where nobody would see an unexpected error."""
        try:
            step(*arguments)
        except BaseException as error:  # a panic in a library written in Rust is no Exception
            logger.exception("a request could not be answered")
            panic = RuntimeError(f"{type(error).__name__}: {error}")
            self.answer(error if isinstance(error, Exception) else panic)

    def answer(self, outcome: Predictions | Exception) -> None:
        """Answer from any thread; only the first answer counts."""
        with contextlib.suppress(InvalidStateError):
            if isinstance(outcome, Predictions):
                self.future.set_result(outcome)
            else:
                self.future.set_exception(outcome)
