"""Whether a request is tried again, and after how long.

What is asked changes nothing on the server, so that asking twice does no harm but costs it time:
pauses double, and each is drawn at random up to that bound (full jitter), so that clients which
were refused together do not come back together. A server that names its own pause gets it in full.
"""

from __future__ import annotations

import email.utils
import random
import time
from dataclasses import dataclass
from datetime import UTC, datetime

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a try gave no answer.

    Attributes:
        error: What the caller is told where this is the end of it.
        passing: Whether it may be over soon.
        retry_after_seconds: How long the server asks to be left alone.
    """

    error: Exception
    passing: bool = False
    retry_after_seconds: float = 0.0


class Tries:
    """The tries of one request, bounded in number and in time."""

    def __init__(self, retries: int, timeout_seconds: float) -> None:
        """Begin; the time runs from here."""
        self._retries = retries
        self._tried = 0
        self._ends = time.monotonic() + timeout_seconds

    def seconds_left(self) -> float:
        """Return how long the next try may take; never 0, which some libraries take for ever."""
        return max(self._ends - time.monotonic(), 0.001)

    def pause_seconds(self, problem: Problem) -> float:
        """Return how long to wait before the next try.

        Raises:
            Exception: The error of ``problem``, where there is no next try: it will not pass, or
                tries or time are used up.
        """
        bound = min(FIRST_PAUSE_SECONDS * 2**self._tried, LONGEST_PAUSE_SECONDS)
        # Jitter, no secret.
        pause = problem.retry_after_seconds + random.uniform(0.0, bound)
        self._tried += 1
        if not problem.passing or self._tried > self._retries or pause > self.seconds_left():
            raise problem.error
        return pause


def retry_after_seconds(header: str | None) -> float:
    """Read ``Retry-After``: seconds or a date; what is neither asks for nothing."""
    if header is None:
        return 0.0
    try:
        return max(float(header), 0.0) if header.strip()[:1].isdigit() else _until(header)
    except (ValueError, OverflowError):
        return 0.0


def _until(date: str) -> float:
    then = email.utils.parsedate_to_datetime(date)
    if then.tzinfo is None:  # written without a zone, or with -0000: UTC, says RFC 5322
        then = then.replace(tzinfo=UTC)
    return max((then - datetime.now(UTC)).total_seconds(), 0.0)
