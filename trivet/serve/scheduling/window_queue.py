"""The order in which windows run when many requests compete for one backend.

Requests share the backend by quanta, in two queues. A new request is served in order of arrival for
one quantum; if it has not finished by then, it continues in the second queue, quantum by quantum.
That queue gets at least every fourth call, and every call that the first one leaves. A quantum is
twice the smallest recent request, and at least half a call. So long requests among short ones
spread over many calls, and under any load every request finishes.

Deadlines come first: two of three calls are for urgent requests, first those that can still be
saved, earliest deadline first; not all three, since some may be impossible to save.

A call starts with windows of the request that is next, and is filled up with windows of others of
similar length, so that little is computed for padding; these count as part of their own quantum. A
call of the second queue is at most one quantum long, for the sake of new requests.
"""

from __future__ import annotations

import bisect
import itertools
import math
import operator
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from trivet.evaluation.packing import BatchLimits

_SHORTER, _LONGER = 0.75, 1.125  # length of the other windows of a call, relative to its first one
_RECENT_SECONDS = 5.0  # how long the size of a request counts for the length of a quantum
_MAX_IN_A_ROW = 3  # calls for the first queue while the second one waits
_REQUESTS_A_QUANTUM = 2
# A request is urgent below this multiple of its work, plus some seconds.
_URGENT_TIMES, _URGENT_SECONDS = 3.0, 0.3
_MAX_URGENT_IN_A_ROW = 2
# A new request gets at least every so many-th call, and a quantum is about so many windows.
_CALLS_A_QUANTUM, _WINDOWS_A_QUANTUM = 4, 2

T = TypeVar("T", bound=Hashable)


class WindowPlace(NamedTuple):
    """Place of a window in its request; places sort by the window's length in tokens."""

    length: int
    example: int
    row: int


@dataclass(slots=True)
class _Waiting(Generic[T]):
    """Waiting windows of one request."""

    owner: T
    places: list[WindowPlace]  # shortest first
    size: int  # positions of all windows that it came with
    deadline: float
    again: bool = False  # whether it waits in the second queue
    used: int = 0  # positions of its quantum that were used


class WindowQueue(Generic[T]):
    """The waiting requests, by owner. Not thread-safe. Times are seconds of one monotonic clock."""

    def __init__(self, limits: BatchLimits) -> None:
        self.windows = 0  # that wait
        self._limits = limits
        self._waiting: OrderedDict[T, _Waiting[T]] = OrderedDict()  # each queue in its order
        self._in_a_row = self._urgent_in_a_row = 0
        # Times and sizes of arrivals, both increasing: the first is the smallest recent size.
        self._recent: deque[tuple[float, int]] = deque()

    def __iter__(self) -> Iterator[T]:
        return iter(self._waiting)

    def add(
        self, owner: T, lengths: Sequence[Sequence[int]], now: float, deadline: float = math.inf
    ) -> None:
        """Append a request to the first queue; ``lengths`` has the tokens of windows by example."""
        places = sorted(
            WindowPlace(length, example, row)
            for example, rows in enumerate(lengths)
            for row, length in enumerate(rows)
        )
        size = sum([self._limits.padded(place.length) for place in places])
        self._waiting[owner] = _Waiting(owner, places, size, deadline)
        self.windows += len(places)
        while self._recent and self._recent[-1][1] >= size:
            self._recent.pop()
        self._recent.append((now, size))

    def drop(self, owner: T, example: int | None = None) -> int:
        """Drop the windows of a request, or of one of its examples; return their number."""
        waiting = self._waiting.get(owner)
        if waiting is None:
            return 0
        before = len(waiting.places)
        waiting.places = [p for p in waiting.places if example is not None and p.example != example]
        return self._count_off(waiting, before - len(waiting.places))

    def fills_a_call(self) -> bool:
        """Return whether enough windows wait for a full call."""
        if self.windows >= (self._limits.max_windows or math.inf):
            return True
        places = itertools.chain.from_iterable(each.places for each in self._waiting.values())
        sizes = itertools.accumulate(self._limits.padded(place.length) for place in places)
        return any(size >= self._limits.positions for size in sizes)

    def windows_before(self, deadline: float, own: int) -> int:
        """Return how many windows may have run when the last of ``own`` new ones has.

        At most those with an earlier deadline, and as many of the others, which get their quanta
        meanwhile. And at most as many as the quanta let pass: about ``own`` of any other request.
        """
        due = quanta = own
        for waiting in self._waiting.values():
            theirs = len(waiting.places)
            due += theirs if waiting.deadline <= deadline else 0
            quanta += min(theirs, own + _WINDOWS_A_QUANTUM)
        return min(due + min(due, self.windows + own - due), _CALLS_A_QUANTUM * quanta)

    def take(
        self, now: float, window_seconds: float = 0.0, call_seconds: float = 0.0
    ) -> list[tuple[T, list[WindowPlace]]]:
        """Take the windows of the next call, by owner; empty if none wait."""
        if not self.windows:
            return []
        while self._recent and self._recent[0][0] < now - _RECENT_SECONDS:
            self._recent.popleft()
        sizes = [waiting.size for waiting in self._waiting.values()]
        smallest = min([*sizes, self._recent[0][1]] if self._recent else sizes)
        # Positions that a request may use before the next one is served.
        quantum = max(_REQUESTS_A_QUANTUM * smallest, self._limits.positions // 2)
        limits = self._limits
        leader, share = self._most_urgent(now, window_seconds, call_seconds), math.inf
        if leader is None:
            leader, share = self._next_request(quantum), quantum
            if leader.again:
                limits = limits._replace(positions=min(quantum, limits.positions))
        queues = sorted(self._waiting.values(), key=operator.attrgetter("again"))
        taken: dict[T, list[WindowPlace]] = {}
        first, longest, windows, room = leader.places[-1].length, 0, 0, 1
        for waiting, most in [(leader, share), *((each, quantum) for each in queues)]:
            while windows < room:
                at = _find_place(waiting.places, first, windows, limits)
                if at < 0:
                    break
                positions = limits.padded(waiting.places[at].length)
                if windows and waiting.used + positions > most:
                    break
                place = waiting.places.pop(at)
                taken.setdefault(waiting.owner, []).append(place)
                waiting.used += positions
                windows += 1
                longest = max(longest, place.length)
                room = limits.windows(longest)
        for owner, places in taken.items():
            self._count_off(self._waiting[owner], len(places))
        return list(taken.items())

    def _most_urgent(
        self, now: float, window_seconds: float, call_seconds: float
    ) -> _Waiting[T] | None:
        """Return the urgent request with the earliest deadline that can be met, if any."""
        urgent: list[tuple[bool, float, bool, _Waiting[T]]] = []
        for waiting in self._waiting.values():
            work, left = window_seconds * len(waiting.places), waiting.deadline - now
            if left < max(_URGENT_TIMES * work, call_seconds) + _URGENT_SECONDS:
                urgent.append((left < work, waiting.deadline, waiting.again, waiting))
        if not urgent or self._urgent_in_a_row >= _MAX_URGENT_IN_A_ROW:
            self._urgent_in_a_row = 0
            return None
        self._urgent_in_a_row += 1
        return min(urgent, key=lambda each: each[:3])[3]

    def _next_request(self, quantum: int) -> _Waiting[T]:
        """Return the request that is next."""
        new, again = self._front(False, quantum), self._front(True, quantum)
        if new is not None and (again is None or self._in_a_row < _MAX_IN_A_ROW):
            self._in_a_row += 1
            return new
        assert again is not None  # one of the queues is not empty
        self._in_a_row = 0
        return again

    def _front(self, again: bool, quantum: int) -> _Waiting[T] | None:
        """Return the first request of a queue, after moving those whose quantum is used up."""
        while queue := [each for each in self._waiting.values() if each.again is again]:
            waiting = queue[0]
            next_window = self._limits.padded(waiting.places[-1].length)
            if not waiting.used or waiting.used + next_window <= quantum:
                return waiting
            waiting.used, waiting.again = 0, True
            self._waiting.move_to_end(waiting.owner)
        return None

    def _count_off(self, waiting: _Waiting[T], windows: int) -> int:
        """Count windows that no longer wait; a request without any leaves its queue."""
        self.windows -= windows
        if not waiting.places:
            del self._waiting[waiting.owner]
        return windows


def _find_place(places: list[WindowPlace], first: int, windows: int, limits: BatchLimits) -> int:
    """Return the index of the longest window that a call with a ``first`` one takes next, or -1."""
    at = len(places) - 1
    if windows:  # the first window fits, however long it is
        per_window = limits.positions // (windows + 1) // limits.step * limits.step
        most = min(_LONGER * first, per_window)
        at = bisect.bisect_right(places, most, key=operator.itemgetter(0)) - 1
    return at if at >= 0 and places[at].length >= _SHORTER * first else -1
