"""What the batcher gives back and says of itself: verdicts with their times, refusals, its state.

Plain data, so that what speaks HTTP and what counts can name it without the batcher's own parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from trivet.records import Evaluation, FailedEvaluation

OverloadReason = Literal["requests", "windows", "time"]


class Overloaded(RuntimeError):
    """There is no room in the queue, or no time; nothing of the request has run.

    Attributes:
        reason: Which bound was met: of requests, of windows, or of the request's own time.
        retry_after_seconds: About how long the engine needs for what waits already.
    """

    def __init__(self, message: str, reason: OverloadReason, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.reason: OverloadReason = reason
        self.retry_after_seconds = retry_after_seconds


class Expired(RuntimeError):
    """The request's time ran out before its verdicts were there; what was left of it never ran."""


class Draining(RuntimeError):
    """The batcher takes no more requests, or could not finish this one within the grace."""


@dataclass(frozen=True, slots=True)
class StageSeconds:
    """Where one request's time went.

    Attributes:
        tokenize: Checking, tokenizing and laying out.
        queue: Waiting: for a thread that tokenizes, for the engine, for one that joins.
        infer: In which windows of it were in the engine.
        finish: Joining and reading the verdicts.
    """

    tokenize: float
    queue: float
    infer: float
    finish: float


@dataclass(frozen=True, slots=True)
class Judged:
    """The answer to one request.

    Attributes:
        results: One an example, in order: its verdict, or why there is none.
        seconds: Where the time went.
        windows: How many windows its examples had.
    """

    results: tuple[Evaluation | FailedEvaluation, ...]
    seconds: StageSeconds
    windows: int


@dataclass(frozen=True, slots=True)
class BatcherState:
    """The batcher at one moment.

    Attributes:
        requests: Accepted and not answered yet.
        windows: Laid out and not run yet.
        call_seconds: How long the oldest engine call that runs has been running; ``None`` where
            none runs.
        draining: Whether new requests are refused.
        last_error: What last went wrong in the engine or its threads.
    """

    requests: int
    windows: int
    call_seconds: float | None
    draining: bool
    last_error: str | None


class Watch(Protocol):
    """Who counts. Called from the engine's threads and the event loop's: must be quick."""

    def called(self, windows: int, seconds: float) -> None:
        """Note an engine call that was answered: how many windows it held, how long it took."""
        ...

    def rejected(self, reason: str) -> None:
        """Note a request without an answer.

        The reason is one of requests, windows, time, deadline, draining, cancelled.
        """
        ...
