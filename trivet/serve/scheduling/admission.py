"""Admission control: whether one more request is accepted, and when to retry if it is not."""

from __future__ import annotations

import threading

from trivet.serve.scheduling.batched_request import Overloaded, OverloadReason

_CHARACTERS_PER_TOKEN = 4  # a first guess, before windows were laid out
_REMEMBERED_WINDOWS = 10_000
# Order and call times vary, so plan with only 40 % of the timeout.
_PLANNED_SHARE = 0.4
# Characters are a rough measure of windows; refuse by them only what exceeds the limit by half.
_SURE_SHARE = 0.5
_LEAST_SECONDS, _MAX_SECONDS, _UNKNOWN_SECONDS = 0.1, 60.0, 1.0
_KEPT_SHARE = 0.9  # weight of the past in the moving averages, per call


class Admission:
    """Limits on waiting work, and the measured speed of the backend. Thread-safe.

    A refusal must cost next to nothing, so a request is refused before it is tokenized if its
    characters alone make it clear. ``waiting`` is the number of waiting windows.
    """

    def __init__(self, max_requests: int, max_windows: int, window_size: int) -> None:
        self.coming = 0  # accepted requests that are not laid out yet
        self.window_seconds = self.call_seconds = 0.0  # recent averages
        self._max_requests = max_requests
        self._max_windows = max_windows
        self._coming_windows = 0.0
        self._seen_windows = 1.0
        self._seen_characters = float(_CHARACTERS_PER_TOKEN * window_size)
        self._shared_seconds = self._windows = self._seconds = self._calls = 0.0
        self._lock = threading.Lock()

    def check_requests(self, requests: int, waiting: int) -> None:
        """Raise ``Overloaded`` if the limit of requests is reached."""
        if requests >= self._max_requests:
            what = f"{requests} requests are being served, the most there may be"
            raise self._overloaded("requests", what, waiting)

    def enter(self, characters: int, requests: int, waiting: int) -> float:
        """Accept a request or raise ``Overloaded``; return its expected windows, for ``leave``."""
        self.check_requests(requests, waiting)
        with self._lock:
            expected = _SURE_SHARE * characters * self._seen_windows / self._seen_characters
            before = waiting + self._coming_windows
            if not before or before + expected <= self._max_windows:
                self.coming += 1
                self._coming_windows += expected
                return expected
        what = (
            f"about {before:.0f} windows wait, and {characters} characters make at least "
            f"{expected:.0f} more, but only {self._max_windows} may wait"
        )
        raise self._overloaded("windows", what, waiting)

    def leave(self, expected: float, characters: int, windows: int) -> None:
        """Note how many windows a request has; 0 if it will not be laid out."""
        with self._lock:
            self.coming -= 1
            # Rounding errors of many small sums would never return to 0.
            self._coming_windows = self._coming_windows - expected if self.coming else 0.0
            if windows:
                self._seen_characters += characters
                self._seen_windows += windows
            if self._seen_windows > _REMEMBERED_WINDOWS:
                self._seen_characters /= 2
                self._seen_windows /= 2

    def check_queue(self, own: int, before: int, left_seconds: float, waiting: int) -> None:
        """Raise ``Overloaded`` if ``own`` windows do not fit or would hardly run in time.

        ``before`` windows, its own included, may have run when the last one of the request has.
        """
        if not waiting:
            return  # whatever its size
        if waiting + own > self._max_windows:
            what = (
                f"{waiting} windows wait, and these are {own} more, but only "
                f"{self._max_windows} may wait"
            )
            raise self._overloaded("windows", what, waiting)
        others = (before - own) * self.window_seconds
        spare = left_seconds - own * self.window_seconds
        if others > max(0.0, _PLANNED_SHARE * spare):
            what = (
                f"{before - own} windows would run before the last of its {own}, for about "
                f"{others:.1f} seconds, and {left_seconds:.1f} are left of its timeout"
            )
            raise self._overloaded("time", what, before - own)

    def note_call(self, windows: int, seconds: float, at_once: float = 1.0) -> None:
        """Learn from a call, which shared its time with others: ``at_once`` calls in all."""
        with self._lock:
            self._seconds = _KEPT_SHARE * self._seconds + seconds
            self._calls = _KEPT_SHARE * self._calls + 1
            self._shared_seconds = _KEPT_SHARE * self._shared_seconds + seconds / at_once
            self._windows = _KEPT_SHARE * self._windows + windows
            self.call_seconds = self._seconds / self._calls
            self.window_seconds = self._shared_seconds / self._windows

    def _overloaded(self, reason: OverloadReason, what: str, waiting: int) -> Overloaded:
        """Return the refusal, with the time that the backend needs for all work before it."""
        seconds = _UNKNOWN_SECONDS
        if self._windows:
            seconds = (waiting + self._coming_windows) * self.window_seconds
            seconds = min(max(seconds, _LEAST_SECONDS), _MAX_SECONDS)
        way_out = ", or with a longer timeout" if reason == "time" else ""
        return Overloaded(f"{what}; ask again in {seconds:.1f} seconds{way_out}", reason, seconds)
