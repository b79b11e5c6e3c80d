"""The order in which windows of many jobs run on one backend, and which jobs are refused.

Three of four calls go to an urgent job that can still be in time, earliest deadline first, or else
to the job with the fewest windows left: a short one overtakes. The fourth call goes to the job that
came first: every job ends. A call takes the longest windows of its job; if this shares calls, only
windows of like length, also those of others, so that little is computed for padding.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import math
import threading
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from operator import attrgetter
from typing import Literal, NamedTuple, TypeAlias

from trivet.evaluation.packing import BatchLimits, WindowAccumulator

_CALLS_A_TURN = 4  # one of them is for the job that came first
_SHORTER, _LONGER = 0.75, 1.125  # length of the windows that fill a call, relative to its first one
# A job is urgent below this multiple of its work, plus some seconds.
_URGENT_TIMES, _URGENT_SECONDS = 3.0, 0.3
# Order and call times vary, so plan with only 40 % of the time that is left.
_PLANNED_SHARE = 0.4
_LEAST_SECONDS, _MAX_SECONDS, _UNKNOWN_SECONDS = 0.1, 60.0, 1.0
_KEPT_SHARE = 0.9  # weight of the past in the moving averages, per call

OverloadReason: TypeAlias = Literal["requests", "windows", "time"]


class Overloaded(RuntimeError):
    """The queue is full, or too slow for the job; nothing of it has run."""

    def __init__(self, message: str, reason: OverloadReason, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.reason: OverloadReason = reason
        self.retry_after_seconds = retry_after_seconds  # about what the waiting work needs


class Expired(RuntimeError):
    """The time ran out before the answer; the rest of the work will not run."""

    reason = "deadline"


class WindowPlace(NamedTuple):
    """A window of an example, and its length in tokens."""

    length: int
    accumulator: WindowAccumulator
    row: int


class Job:
    """Windows of some examples that wait for the backend or run.

    Attributes:
        accumulators: An accumulator of answers for each example.
        deadline: Time by ``time.monotonic`` after which nothing of it may run.
        shared: Whether its windows may share calls with those of other jobs. Without, its calls,
            and so the last digits of its numbers, depend on nothing else.
        thread: Thread that made it. Jobs of a thread that are not shared run in their order.
        done: Future that ends with the last answer; cancelling it drops what has not run.
        since: Time when it was queued.
        places: Windows that wait; a call takes them from the end.
        windows: Number of all its windows.
        calls: Number of calls that it needs alone; of those, ``begun`` were led by it.
        running: Number of calls that it leads at this moment.
        infer_seconds: Time during which windows of it were in the backend.
    """

    def __init__(
        self,
        accumulators: Sequence[WindowAccumulator],
        deadline: float = math.inf,
        shared: bool = False,
    ) -> None:
        self.accumulators = accumulators
        self.deadline = deadline
        self.shared = shared
        self.thread = threading.get_ident()
        self.done: Future[None] = Future()
        self.since = 0.0
        windows = [
            WindowPlace(len(ids), accumulator, row)
            for accumulator in accumulators
            for row, ids in enumerate(accumulator.layout.rows)
        ]
        windows.reverse()  # of equal ones the first goes last, and so is taken first
        self.places = sorted(windows, key=attrgetter("length"))
        self.windows = self._unanswered = len(windows)
        self.calls = self.begun = self.running = 0
        self.infer_seconds = self._inferred_until = 0.0
        self._lock = threading.Lock()

    def take(self, limits: BatchLimits) -> list[WindowPlace]:
        """Take the windows of its next call: the longest ones, and of equal ones the first."""
        left = max(0, len(self.places) - limits.windows(self.places[-1].length))
        taken = self.places[: left - 1 if left else None : -1]
        del self.places[left:]
        return taken

    def count_off(self, windows: int, began: float, ended: float) -> None:
        """Note windows that were answered in a call; with the last ones the job is done."""
        with self._lock:  # the time that two calls share counts once
            self._unanswered -= windows
            self.infer_seconds += max(0.0, ended - max(began, self._inferred_until))
            self._inferred_until = max(ended, self._inferred_until)
            if self._unanswered:
                return
        with contextlib.suppress(InvalidStateError):
            self.done.set_result(None)

    def fail(self, error: Exception) -> None:
        """End with an error, unless it is done."""
        with contextlib.suppress(InvalidStateError):
            self.done.set_exception(error)

    def wait(self) -> None:
        """Wait for the last answer; ``CancelledError`` if it was cancelled."""
        try:
            self.done.result()
        except BaseException:
            self.cancel()
            raise

    def cancel(self) -> None:
        """Drop what has not run."""
        self.done.cancel()


class WindowQueue:
    """The waiting jobs. Not thread-safe. Times are seconds of one monotonic clock."""

    def __init__(self, limits: BatchLimits, max_windows: float = math.inf) -> None:
        self.window_seconds = self.call_seconds = 0.0  # recent averages
        self.max_windows = max_windows
        self._limits = limits
        self._jobs: dict[Job, None] = {}  # in their order
        self._calls_taken = 0
        self._shared_seconds = self._seconds = self._windows = self._calls = 0.0

    @property
    def windows(self) -> int:
        """Number of windows that wait."""
        return sum(len(job.places) for job in list(self._jobs) if not job.done.done())

    def add(self, job: Job, now: float) -> None:
        """Append a job.

        Raises:
            Overloaded: The queue is full, or it would hardly end in time. A job is accepted,
                however large it is, while no other waits.
        """
        waiting, windows, left_seconds = self.windows, job.windows, job.deadline - now
        before, spare = self._windows_before(job), left_seconds - windows * self.window_seconds
        if waiting and waiting + windows > self.max_windows:
            raise self.overloaded(
                "windows",
                f"{waiting} windows wait, and these are {windows} more, but only "
                f"{self.max_windows} may wait",
            )
        if before * self.window_seconds > max(0.0, _PLANNED_SHARE * spare):
            raise self.overloaded(
                "time",
                f"{before} windows would run before the last of its {windows}, for about "
                f"{before * self.window_seconds:.1f} seconds, and {left_seconds:.1f} are left of "
                "its timeout",
            )
        self._jobs[job] = None
        job.since, left = now, windows
        while left > 0:
            left -= self._limits.windows(job.places[left - 1].length)
            job.calls += 1

    def overloaded(self, reason: OverloadReason, what: str) -> Overloaded:
        """Return a refusal, with the time that the backend needs for all work that waits."""
        seconds = _UNKNOWN_SECONDS
        if self._windows:
            seconds = min(max(self.windows * self.window_seconds, _LEAST_SECONDS), _MAX_SECONDS)
        way_out = ", or with a longer timeout" if reason == "time" else ""
        return Overloaded(f"{what}; ask again in {seconds:.1f} seconds{way_out}", reason, seconds)

    def _windows_before(self, job: Job) -> int:
        """Return how many windows of others may run before the last one of a new job."""
        others = [len(other.places) for other in self._jobs if not other.done.done()]
        before = sum(windows for windows in others if windows <= job.windows)
        # And the turns of the job that came first.
        return min(before + (before + job.windows) // (_CALLS_A_TURN - 1), sum(others))

    def note_call(self, windows: int, seconds: float, at_once: float = 1.0) -> None:
        """Learn from a call, which shared its time with others: ``at_once`` calls in all."""
        self._seconds = _KEPT_SHARE * self._seconds + seconds
        self._calls = _KEPT_SHARE * self._calls + 1
        self._shared_seconds = _KEPT_SHARE * self._shared_seconds + seconds / at_once
        self._windows = _KEPT_SHARE * self._windows + windows
        self.call_seconds = self._seconds / self._calls
        self.window_seconds = self._shared_seconds / self._windows

    def drop_ended(self, now: float) -> None:
        """Drop the jobs that were cancelled or are late."""
        for job in list(self._jobs):
            if job.deadline <= now:
                job.fail(Expired("the time ran out before all windows had run"))
            if job.done.done():
                del self._jobs[job]

    def since(self) -> float:
        """Return when the first of the waiting jobs came."""
        return next(iter(self._jobs)).since

    def fills_a_call(self) -> bool:
        """Return whether enough windows wait for a full call."""
        places = itertools.chain.from_iterable(job.places for job in self._jobs)
        sizes = itertools.accumulate(self._limits.padded(window.length) for window in places)
        return self.windows >= (self._limits.max_windows or math.inf) or any(
            size >= self._limits.positions for size in sizes
        )

    def take(self, now: float) -> tuple[Job, dict[Job, list[WindowPlace]]]:
        """Take the windows of the next call; return the job that leads it, and all by job."""
        leader = self._next_job(now)
        taken = self._fill(leader) if leader.shared else {leader: leader.take(self._limits)}
        for job in taken:
            if not job.places:
                del self._jobs[job]
        leader.begun += 1
        leader.running += 1
        return leader, taken

    def _next_job(self, now: float) -> Job:
        """Return the job that leads the next call."""
        first_of: dict[object, Job] = {}
        for job in self._jobs:
            first_of.setdefault(job if job.shared else job.thread, job)
        jobs = list(first_of.values())
        self._calls_taken += 1
        if self._calls_taken % _CALLS_A_TURN == 0:
            return jobs[0]

        def rank(job: Job) -> tuple[int, float]:
            work, left = self.window_seconds * len(job.places), job.deadline - now
            if left < work:  # it cannot be in time
                return 2, job.deadline
            urgent = left < max(_URGENT_TIMES * work, self.call_seconds) + _URGENT_SECONDS
            return (0, job.deadline) if urgent else (1, len(job.places))

        return min(jobs, key=rank)  # of equal ones the first

    def _fill(self, leader: Job) -> dict[Job, list[WindowPlace]]:
        """Take the longest window of a job, and others of like length, its own ones first."""
        taken = {leader: [leader.places.pop()]}
        first = longest = taken[leader][0].length
        count = 1
        others = sorted((job for job in self._jobs if job.shared), key=lambda job: len(job.places))
        for job in (leader, *others):
            while (at := self._like(job.places, first, longest, count)) >= 0:
                window = job.places.pop(at)
                taken.setdefault(job, []).append(window)
                count, longest = count + 1, max(longest, window.length)
        return taken

    def _like(self, places: Sequence[WindowPlace], first: int, longest: int, count: int) -> int:
        """Return the index of the longest window that joins a call of ``count`` ones, or -1."""
        limits = self._limits
        if count >= limits.windows(longest):
            return -1
        fitting = limits.positions // (count + 1) // limits.step * limits.step
        at = bisect.bisect_right(places, min(_LONGER * first, fitting), key=attrgetter("length"))
        return at - 1 if at and places[at - 1].length >= _SHORTER * first else -1
