"""The order in which windows run when many requests compete for one backend.

Requests take turns, in two lines. New requests are served in order of arrival for one turn; a
request that has not finished by then continues in the second line, turn by turn. The second line
gets at least every fourth call, and every call that the first one leaves. A turn is as long as two
of the smallest recent requests, and at least half a call. So requests of similar size are served
one after the other, the windows of a long request among short ones spread over many calls, and
under any load every request finishes.

Deadlines come before turns. A request is urgent once its remaining time is less than three times
what its windows take: work for an answer that comes too late would be lost. Two of three calls are
for urgent requests, first those that can still be saved, earliest deadline first. Not all three: a
request that cannot be saved must not stop the others.

A call starts with windows of the request whose turn it is, and is filled up with windows of others
of similar length, so that little is computed for padding; what they get ahead of their turn counts
as part of it. A call of the second line is at most one turn long, for the sake of new requests.
"""

from __future__ import annotations

import bisect
import itertools
import math
import operator
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from trivet.evaluation.packing import BatchLimits

# Length of the other windows of a call, relative to its first one.
_SHORTER, _LONGER = 0.75, 1.125
# How long the size of a request counts for the length of a turn.
_RECENT_SECONDS = 5.0
# Maximum calls in a row for the first line while the second one waits.
_MOST_IN_A_ROW = 3
# A turn is as long as so many of the smallest requests.
_REQUESTS_A_TURN = 2
# A request is urgent below this multiple of its work, plus some seconds.
_URGENT_TIMES, _URGENT_SECONDS = 3.0, 0.3
# Maximum calls in a row for urgent requests while others wait.
_MOST_URGENT_IN_A_ROW = 2
# A new request gets at least every so many-th call, and a turn is about so many windows.
_CALLS_A_TURN, _WINDOWS_A_TURN = 4, 2

T = TypeVar("T", bound=Hashable)


class WindowPlace(NamedTuple):
    """Place of a window in its request; places sort by the window's length in tokens."""

    length: int
    example: int
    row: int


@dataclass(slots=True)
class _Waiting:
    """Waiting windows of one request."""

    places: list[WindowPlace]  # shortest first
    size: int  # positions of all windows that it came with
    deadline: float
    used: int = 0  # positions of its turn that were used


_Line = OrderedDict[T, _Waiting]


class WindowQueue(Generic[T]):
    """The waiting requests, by owner. Not thread-safe. Times are seconds of one monotonic clock.

    Attributes:
        windows: Number of waiting windows.
    """

    def __init__(self, limits: BatchLimits) -> None:
        self.windows = 0
        self._positions = 0
        self._limits = limits
        self._first: _Line[T] = OrderedDict()
        self._second: _Line[T] = OrderedDict()
        self._in_a_row = 0
        self._urgent_in_a_row = 0
        # Times and sizes of arrivals, both increasing: the first is the smallest recent size.
        self._recent: deque[tuple[float, int]] = deque()

    def __iter__(self) -> Iterator[T]:
        """Iterate over the owners of waiting windows."""
        return itertools.chain(self._first, self._second)

    def add(
        self,
        owner: T,
        lengths: Sequence[Sequence[int]],
        now_seconds: float,
        deadline_seconds: float = math.inf,
    ) -> None:
        """Append a request to the first line.

        Args:
            owner: Owner without waiting windows.
            lengths: For each of its examples the tokens of each window.
            now_seconds: Current time.
            deadline_seconds: Time by which its last window should have run.
        """
        places = sorted(
            WindowPlace(length, example, row)
            for example, rows in enumerate(lengths)
            for row, length in enumerate(rows)
        )
        if not places:
            return
        size = sum([self._limits.padded(place.length) for place in places])
        self._first[owner] = _Waiting(places, size, deadline_seconds)
        self.windows += len(places)
        self._positions += size
        while self._recent and self._recent[-1][1] >= size:
            self._recent.pop()
        self._recent.append((now_seconds, size))

    def drop(self, owner: T, example: int | None = None) -> int:
        """Drop the windows of a request, or of one of its examples; return their number."""
        waiting = self._first.get(owner) or self._second.get(owner)
        if waiting is None:
            return 0
        dropped = [p for p in waiting.places if example is None or p.example == example]
        waiting.places = [p for p in waiting.places if example is not None and p.example != example]
        self._remove(owner, dropped)
        return len(dropped)

    def fills_a_call(self) -> bool:
        """Return whether enough windows wait for a full call."""
        most = self._limits.most_windows
        enough = most is not None and self.windows >= most
        return enough or self._positions >= self._limits.positions

    def windows_before(self, deadline_seconds: float, own: int) -> int:
        """Return how many windows may have run when the last of a new request has.

        At most the windows with an earlier deadline, and as many again of the others, which get
        their turns meanwhile. And at most what its turns let pass: however long another request
        is, a new one waits for about as many windows of it as it has itself (``own``).
        """
        due = turns = own
        for waiting in itertools.chain(self._first.values(), self._second.values()):
            theirs = len(waiting.places)
            due += theirs if waiting.deadline <= deadline_seconds else 0
            turns += min(theirs, own + _WINDOWS_A_TURN)
        return min(due + min(due, self.windows + own - due), _CALLS_A_TURN * turns)

    def take(
        self, now_seconds: float, window_seconds: float = 0.0, call_seconds: float = 0.0
    ) -> list[tuple[T, list[WindowPlace]]]:
        """Take the windows of the next call, by owner; empty if none wait.

        Args:
            now_seconds: Current time.
            window_seconds: Approximate time for a window, which decides what is urgent.
            call_seconds: Approximate time for a call; longer if several run at once.
        """
        if not self.windows:
            return []
        everyone = [*self._first.items(), *self._second.items()]
        turn = self._turn(everyone, now_seconds)
        owner, waiting, call, share = self._lead_urgent(
            everyone, now_seconds, window_seconds, call_seconds
        ) or self._lead_by_turn(turn)
        taken = {owner: call.take(waiting, share)}
        self._remove(owner, taken[owner])
        for owner, waiting in [*self._first.items(), *self._second.items()]:
            if call.is_full():
                break
            if found := call.take(waiting, turn):
                taken.setdefault(owner, []).extend(found)
                self._remove(owner, found)
        return list(taken.items())

    def _turn(self, everyone: Sequence[tuple[T, _Waiting]], now_seconds: float) -> int:
        """Return how many positions a request may use before it is the next one's turn."""
        while self._recent and self._recent[0][0] < now_seconds - _RECENT_SECONDS:
            self._recent.popleft()
        sizes = [waiting.size for _, waiting in everyone]
        smallest = min([*sizes, self._recent[0][1]] if self._recent else sizes)
        return max(_REQUESTS_A_TURN * smallest, self._limits.positions // 2)

    def _lead_urgent(
        self,
        everyone: Sequence[tuple[T, _Waiting]],
        now_seconds: float,
        window_seconds: float,
        call_seconds: float,
    ) -> _Leader[T] | None:
        """Return the urgent request with the earliest deadline that can be met, if any."""
        urgent = []
        for owner, waiting in everyone:
            work, left = window_seconds * len(waiting.places), waiting.deadline - now_seconds
            if left < max(_URGENT_TIMES * work, call_seconds) + _URGENT_SECONDS:
                urgent.append(((left < work, waiting.deadline), owner, waiting))
        if not urgent or self._urgent_in_a_row >= _MOST_URGENT_IN_A_ROW:
            self._urgent_in_a_row = 0
            return None
        self._urgent_in_a_row += 1
        _, owner, waiting = min(urgent, key=operator.itemgetter(0))
        return owner, waiting, _Call(self._limits, waiting.places[-1].length), math.inf

    def _lead_by_turn(self, turn: int) -> _Leader[T]:
        """Return the request whose turn it is."""
        new, again = self._front(self._first, turn), self._front(self._second, turn)
        if new is not None and (again is None or self._in_a_row < _MOST_IN_A_ROW):
            self._in_a_row += 1
            return *new, _Call(self._limits, new[1].places[-1].length), turn
        assert again is not None  # one of the lines is not empty
        self._in_a_row = 0
        short = self._limits._replace(positions=min(turn, self._limits.positions))
        return *again, _Call(short, again[1].places[-1].length), turn

    def _front(self, line: _Line[T], turn: int) -> tuple[T, _Waiting] | None:
        """Return the first request of a line, after moving those whose turn is over."""
        while line:
            owner, waiting = next(iter(line.items()))
            next_window = self._limits.padded(waiting.places[-1].length)
            if not waiting.used or waiting.used + next_window <= turn:
                return owner, waiting
            waiting.used = 0
            del line[owner]
            self._second[owner] = waiting
        return None

    def _remove(self, owner: T, places: Sequence[WindowPlace]) -> None:
        """Count windows that no longer wait; a request without any leaves its line."""
        self.windows -= len(places)
        self._positions -= sum([self._limits.padded(place.length) for place in places])
        line = self._first if owner in self._first else self._second
        if not line[owner].places:
            del line[owner]


@dataclass(slots=True)
class _Call:
    """A call that is being filled."""

    limits: BatchLimits
    first: int  # tokens of its first window; the others are of similar length
    windows: int = 0
    longest: int = 0  # tokens of its longest window

    def is_full(self) -> bool:
        """Return whether not even another window of the longest length fits."""
        return bool(self.windows) and self.windows >= self.limits.room(self.longest)

    def take(self, waiting: _Waiting, turn: float) -> list[WindowPlace]:
        """Take windows of one request, longest first, while they fit and its turn lasts."""
        taken: list[WindowPlace] = []
        places, step = waiting.places, self.limits.step
        while places and places[-1].length >= _SHORTER * self.first and not self.is_full():
            at = len(places) - 1
            if self.windows:  # the first window fits, however long it is
                per_window = self.limits.positions // (self.windows + 1) // step * step
                most = min(_LONGER * self.first, per_window)
                at = bisect.bisect_right(places, most, key=operator.itemgetter(0)) - 1
            if at < 0 or places[at].length < _SHORTER * self.first:
                break
            positions = self.limits.padded(places[at].length)
            if self.windows and waiting.used + positions > turn:
                break
            waiting.used += positions
            self.windows += 1
            self.longest = max(self.longest, places[at].length)
            taken.append(places.pop(at))
        return taken


# Owner that leads a call, its windows, the call, and the positions that it may use.
_Leader: TypeAlias = tuple[T, _Waiting, _Call, float]
