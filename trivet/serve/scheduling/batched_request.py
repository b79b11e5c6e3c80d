"""One request in the batcher: its stages, and its results and refusals as plain data."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Literal, Protocol

from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.packing import WindowAccumulator
from trivet.evaluation.postprocessing import to_evaluation, to_result
from trivet.evaluation.preprocessing import PreprocessedExample, Refusal
from trivet.records import Evaluation, FailedEvaluation, RagExample
from trivet.settings import ThresholdName

logger = logging.getLogger(__name__)


OverloadReason = Literal["requests", "windows", "time"]


class Overloaded(RuntimeError):
    """The queue is full, or too slow for the request; nothing of it has run."""

    def __init__(self, message: str, reason: OverloadReason, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.reason: OverloadReason = reason
        self.retry_after_seconds = retry_after_seconds  # about what the waiting work needs


class Expired(RuntimeError):
    """The request's time ran out before its answer; the rest of it will not run."""

    reason = "deadline"


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

    results: tuple[Evaluation | FailedEvaluation, ...]
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


@dataclass(eq=False)
class BatchedRequest:
    """One request; its stages run in different threads, one after the other."""

    evaluator: Evaluator
    examples: Sequence[RagExample | PreprocessedExample]
    allow_empty_contexts: bool
    deadline: float  # by time.monotonic; nothing of the request may run later
    threshold: float | ThresholdName | None = None  # as in Evaluator.evaluate
    strict: bool = False  # likewise
    arrived: float = field(default_factory=time.monotonic)
    laid_out_at: float = math.inf
    # Once it is done or cancelled, nothing of the request needs to run.
    future: Future[Predictions] = field(default_factory=Future)
    preprocessed: list[PreprocessedExample | Refusal] = field(default_factory=list)
    accumulators: list[WindowAccumulator] = field(default_factory=list)
    windows: int = 0
    windows_left: int = 0  # without an answer
    tokenize_seconds: float = 0.0
    infer_seconds: float = 0.0
    inferred_until: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def preprocess(self) -> list[list[int]]:
        """Preprocess; return the tokens of each window, for each accumulator."""
        started = time.monotonic()
        self.preprocessed = self.evaluator.preprocessor.preprocess(
            self.examples, allow_empty_contexts=self.allow_empty_contexts
        )
        prepared = [each for each in self.preprocessed if isinstance(each, PreprocessedExample)]
        self.accumulators = [WindowAccumulator(each.layout) for each in prepared]
        self.laid_out_at = time.monotonic()
        self.tokenize_seconds = self.laid_out_at - started
        lengths = [[len(row) for row in each.layout.rows] for each in self.accumulators]
        self.windows = self.windows_left = sum(map(len, lengths))
        return lengths

    def count_off(self, windows: int, began: float, ended: float) -> bool:
        """Note windows that were answered in a call, or dropped; return whether none is left."""
        with self.lock:  # the time that two calls share counts once
            self.windows_left -= windows
            self.infer_seconds += max(0.0, ended - max(began, self.inferred_until))
            self.inferred_until = max(ended, self.inferred_until)
            return self.windows_left == 0

    def finish(self, outcomes: Sequence[Evaluation | Refusal] = ()) -> None:
        """Answer with the outcomes of the examples; without any, postprocess first."""
        if self.future.done():
            return
        started = time.monotonic()
        outcomes = outcomes or self.evaluator.postprocess(
            self.preprocessed, self.accumulators, to_evaluation, self.threshold, self.strict
        )
        pairs = zip(outcomes, self.examples, strict=True)
        results = tuple(to_result(outcome, each.id) for outcome, each in pairs)
        now = time.monotonic()
        known = self.tokenize_seconds + self.infer_seconds + now - started
        queued = max(0.0, now - self.arrived - known)
        seconds = StageSeconds(self.tokenize_seconds, queued, self.infer_seconds, now - started)
        with contextlib.suppress(InvalidStateError):
            self.future.set_result(Predictions(results, seconds, self.windows))

    def guard(self, step: Callable[..., None], *arguments: object) -> None:
        """Run a step in a pool; its error is the answer."""
        try:
            step(*arguments)
        except (Expired, Overloaded) as refusal:
            self.fail(refusal)
        except BaseException as error:  # a panic in a library written in Rust is not an Exception
            logger.exception("a request could not be answered")
            panic = RuntimeError(f"{type(error).__name__}: {error}")
            self.fail(error if isinstance(error, Exception) else panic)

    def fail(self, error: Exception) -> None:
        """Answer from any thread with an error, unless there is an answer."""
        with contextlib.suppress(InvalidStateError):
            self.future.set_exception(error)
