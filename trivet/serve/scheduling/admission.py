"""Whether one more request is let in, and when to ask again if it is not.

Three bounds: how many requests are unanswered, how many windows wait, and how much of its time a
request may spend on waiting. A refusal must cost next to nothing, so a request is refused before it
is tokenized where its characters alone make it clear.
"""

from __future__ import annotations

import threading

from trivet.serve.scheduling.predictions import Overloaded

# Until windows were laid out, a token counts as four characters.
_CHARACTERS_PER_TOKEN = 4
_REMEMBERED_WINDOWS = 10_000
# Turns change the order, and calls differ: only so much of a request's time is planned with.
_PLANNED_SHARE = 0.4
# Characters tell windows roughly; only what is too much by half is refused by them.
_SURE_SHARE = 0.5
_LEAST_SECONDS, _MOST_SECONDS, _UNKNOWN_SECONDS = 0.1, 60.0, 1.0
# How much of what was learnt of the engine's speed is left after one more call.
_KEPT_SHARE = 0.9


class Admission:
    """The bounds, what is on its way to the queue, and how fast the engine is. Safe for threads.

    Attributes:
        coming: How many requests were let in and are not laid out yet.
    """

    def __init__(self, most_requests: int, most_windows: int, window_size: int) -> None:
        """Start with nobody inside.

        Args:
            most_requests: The most requests without an answer.
            most_windows: The most windows that wait; a request that has more alone is let in while
                none wait.
            window_size: Tokens of a window, for a first guess.
        """
        self.coming = 0
        self._most_requests = most_requests
        self._most_windows = most_windows
        self._coming_windows = 0.0
        self._seen_windows = 1.0
        self._seen_characters = float(_CHARACTERS_PER_TOKEN * window_size)
        self._call_seconds = self._call_windows = 0.0
        self._calls_seconds = self._calls = 0.0
        self._lock = threading.Lock()

    @property
    def window_seconds(self) -> float:
        """About how long the engine needs for a window, of late; 0 before its first call."""
        return self._call_seconds / self._call_windows if self._call_windows else 0.0

    @property
    def call_seconds(self) -> float:
        """About how long a call of the engine takes, of late; 0 before its first call."""
        return self._calls_seconds / self._calls if self._calls else 0.0

    def check_requests(self, requests: int, waiting: int) -> None:
        """Refuse one more request where there are enough.

        Args:
            requests: How many are unanswered.
            waiting: How many windows wait.

        Raises:
            Overloaded: There are as many as there may be.
        """
        if requests >= self._most_requests:
            raise Overloaded(
                f"{requests} requests are being served, the most there may be; "
                f"{self._ask_again(waiting)}",
                "requests",
                self._retry_seconds(waiting),
            )

    def enter(self, characters: int, requests: int, waiting: int) -> float:
        """Let a request in, or refuse it.

        Args:
            characters: Of all its texts.
            requests: How many are unanswered.
            waiting: How many windows wait.

        Returns:
            The fewest windows that it may be expected to have; ``leave`` wants them back.

        Raises:
            Overloaded: A bound is met.
        """
        self.check_requests(requests, waiting)
        with self._lock:
            expected = _SURE_SHARE * characters * self._seen_windows / self._seen_characters
            before = waiting + self._coming_windows
            if not before or before + expected <= self._most_windows:
                self.coming += 1
                self._coming_windows += expected
                return expected
        raise Overloaded(
            f"about {before:.0f} windows wait, and {characters} characters make at least "
            f"{expected:.0f} more, but only {self._most_windows} may wait; "
            f"{self._ask_again(waiting)}",
            "windows",
            self._retry_seconds(waiting),
        )

    def leave(self, expected: float, characters: int, windows: int) -> None:
        """Note that a request is laid out, or will not be.

        Args:
            expected: What ``enter`` returned.
            characters: Of all its texts.
            windows: How many it has; 0 where none were made.
        """
        with self._lock:
            self.coming -= 1
            # A sum of many small shares would never come back to nothing.
            self._coming_windows = self._coming_windows - expected if self.coming else 0.0
            if windows:
                self._seen_characters += characters
                self._seen_windows += windows
            if self._seen_windows > _REMEMBERED_WINDOWS:
                self._seen_characters /= 2
                self._seen_windows /= 2

    def check_windows(self, windows: int, waiting: int) -> None:
        """Refuse a request whose windows are known now.

        Args:
            windows: How many it has.
            waiting: How many of others wait.

        Raises:
            Overloaded: There is no room for them.
        """
        if waiting and waiting + windows > self._most_windows:
            raise Overloaded(
                f"{waiting} windows wait, and these are {windows} more, but only "
                f"{self._most_windows} may wait; {self._ask_again(waiting)}",
                "windows",
                self._retry_seconds(waiting),
            )

    def check_time(self, own: int, before: int, left_seconds: float, waiting: int) -> None:
        """Refuse a request that would hardly be answered in time, before the engine works for it.

        Args:
            own: How many windows it has.
            before: How many may have run when its last one has, its own among them.
            left_seconds: Until its answer is wanted.
            waiting: How many of others wait; where none do, it may try.

        Raises:
            Overloaded: Those of others would take more of its time than is planned with.
        """
        others = (before - own) * self.window_seconds
        spare = left_seconds - own * self.window_seconds
        if waiting and others > max(0.0, _PLANNED_SHARE * spare):
            raise Overloaded(
                f"{before - own} windows would run before the last of its {own}, for about "
                f"{others:.1f} seconds, and {left_seconds:.1f} are left of its time-out; "
                f"{self._ask_again(before - own)}, or with a longer time-out",
                "time",
                self._retry_seconds(before - own),
            )

    def note_call(self, windows: int, seconds: float, at_once: float = 1.0) -> None:
        """Learn how long the engine needs for a window, and for a call.

        Args:
            windows: Of a call.
            seconds: How long it took.
            at_once: How many calls ran meanwhile, itself among them: it had its share of the time.
        """
        with self._lock:
            self._calls_seconds = _KEPT_SHARE * self._calls_seconds + seconds
            self._calls = _KEPT_SHARE * self._calls + 1
            self._call_seconds = _KEPT_SHARE * self._call_seconds + seconds / at_once
            self._call_windows = _KEPT_SHARE * self._call_windows + windows

    def _retry_seconds(self, waiting: int) -> float:
        """Return about how long the engine needs for all that is there already."""
        if not self._call_windows:
            return _UNKNOWN_SECONDS
        seconds = (waiting + self._coming_windows) * self.window_seconds
        return min(max(seconds, _LEAST_SECONDS), _MOST_SECONDS)

    def _ask_again(self, waiting: int) -> str:
        return f"ask again in {self._retry_seconds(waiting):.1f} seconds"
