"""Results, refusals and state of the batcher, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from trivet.records import Evaluation, FailedEvaluation

OverloadReason = Literal["requests", "windows", "time"]


class Overloaded(RuntimeError):
    """The queue has no room or no time for the request; nothing of it has run."""

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


class Watch(Protocol):
    """Observer of the batcher. Called from backend threads and the event loop: must be quick."""

    def called(self, windows: int, seconds: float) -> None:
        """Note an answered backend call: its number of windows and its duration."""

    def rejected(self, reason: str) -> None:
        """Note a refusal: requests, windows, time, deadline, draining or cancelled."""
