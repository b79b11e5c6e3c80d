"""Which windows run next, where many requests compete for one engine.

Requests take turns, in two lines. Who comes is served in order of arrival, for one turn; who has
not finished by then goes on in the second line, turn by turn. That line has every fourth of their
calls at least, and all that the first one leaves. A turn is as long as two of the smallest requests
of late, and half a call at least. So requests of about one size are served one after the other,
while a long one among short ones has its windows spread over many calls; and under any load each
comes to its end.

Deadlines come before turns. A request is urgent from the moment when its time is hardly three times
what its windows take: work for an answer that comes too late would be lost. Of three calls two are
for the urgent, those first that can still be saved, earliest deadline first. Two and not all: a
request that cannot be saved must not stop the others.

A call takes windows of whose turn it is, and is filled up with windows of others that are about as
long, so that little is computed for padding; what they get ahead of their turn is part of it. A
call of the second line is no longer than a turn, for the sake of who comes meanwhile.
"""

from __future__ import annotations

import bisect
import itertools
import math
import operator
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from trivet.evaluation.packing import BatchLimits

# How much shorter or longer than the first window of a call the others may be.
_SHORTER, _LONGER = 0.75, 1.125
# For how long a request's size still counts for the turns of others.
_OF_LATE_SECONDS = 5.0
# How many calls in a row the first line may have while the second one waits.
_MOST_IN_A_ROW = 3
# How many of the smallest requests make a turn.
_REQUESTS_A_TURN = 2
# A request is urgent from when its time is so many times its work, and some seconds to spare.
_URGENT_TIMES, _URGENT_SECONDS = 3.0, 0.3
# How many calls in a row urgent requests may lead while others wait.
_MOST_URGENT_IN_A_ROW = 2
# A new request has at least every so many-th call, and a turn is about so many windows.
_CALLS_A_TURN, _WINDOWS_A_TURN = 4, 2

T = TypeVar("T", bound=Hashable)


class WindowPlace(NamedTuple):
    """Where a window of a request stands; places sort by the window's length in tokens."""

    length: int
    example: int
    row: int


class _Waiting:
    """One request's windows that have not run, shortest first."""

    def __init__(self, places: list[WindowPlace], size: int, deadline: float) -> None:
        self.places = places
        self.size = size  # positions of all windows that it came with
        self.deadline = deadline  # in seconds, by the clock of ``add``
        self.used = 0  # positions of its turn that it had


_Line = OrderedDict[T, _Waiting]


class WindowQueue(Generic[T]):
    """The requests that wait, by their owners. Whoever shares one between threads locks it.

    Attributes:
        windows: How many windows wait.
    """

    def __init__(self, limits: BatchLimits) -> None:
        """Start empty.

        Args:
            limits: How full the engine wants its calls.
        """
        self.windows = 0
        self._positions = 0
        self._filling = limits
        self._first: _Line[T] = OrderedDict()
        self._second: _Line[T] = OrderedDict()
        self._in_a_row = 0
        self._urgent_in_a_row = 0
        # Times and sizes of arrivals, both rising: the first is the smallest of late.
        self._of_late: deque[tuple[float, int]] = deque()

    def __iter__(self) -> Iterator[T]:
        """Go through the owners whose windows wait."""
        return itertools.chain(self._first, self._second)

    def add(
        self,
        owner: T,
        lengths: Sequence[Sequence[int]],
        now_seconds: float,
        deadline_seconds: float = math.inf,
    ) -> None:
        """Put a request at the end of the first line.

        Args:
            owner: Whose windows they are; none of its own wait yet.
            lengths: For each of its examples the tokens of each window.
            now_seconds: The time, by any clock that only goes forward.
            deadline_seconds: When its last window should have run, by the same clock.
        """
        places = sorted(
            WindowPlace(length, example, row)
            for example, rows in enumerate(lengths)
            for row, length in enumerate(rows)
        )
        if not places:
            return
        size = self._count_positions(places)
        self._first[owner] = _Waiting(places, size, deadline_seconds)
        self.windows += len(places)
        self._positions += size
        while self._of_late and self._of_late[-1][1] >= size:
            self._of_late.pop()
        self._of_late.append((now_seconds, size))

    def drop(self, owner: T, example: int | None = None) -> int:
        """Forget what waits of a request, or of one of its examples; return how many windows."""
        waiting = self._first.get(owner) or self._second.get(owner)
        if waiting is None:
            return 0
        kept = [p for p in waiting.places if example is not None and p.example != example]
        dropped = [p for p in waiting.places if example is None or p.example == example]
        waiting.places = kept
        self._note_gone(owner, dropped)
        return len(dropped)

    def fills_a_call(self) -> bool:
        """Return whether as much waits as may stand in one call."""
        most = self._filling.most_windows
        enough = most is not None and self.windows >= most
        return enough or self._positions >= self._filling.positions

    def windows_before(self, deadline_seconds: float, own: int) -> int:
        """Return how many windows may have run when the last of a new request has.

        No more than what has an earlier deadline, and as much again of the rest, which has its
        turns meanwhile. And no more than its turns let pass: however long another request is, this
        one waits for about as many windows of it as it has itself.

        Args:
            deadline_seconds: The new request's.
            own: How many windows it has.
        """
        due = turns = own
        for _, waiting in self._everyone():
            theirs = len(waiting.places)
            due += theirs if waiting.deadline <= deadline_seconds else 0
            turns += min(theirs, own + _WINDOWS_A_TURN)
        return min(due + min(due, self.windows + own - due), _CALLS_A_TURN * turns)

    def take(
        self, now_seconds: float, window_seconds: float = 0.0, call_seconds: float = 0.0
    ) -> list[tuple[T, list[WindowPlace]]]:
        """Take the windows of the next call out of the line.

        Args:
            now_seconds: The time, by the clock of ``add``.
            window_seconds: About how long a window takes, by which it is known who is urgent.
            call_seconds: About how long a call takes; longer where several run at once.

        Returns:
            Whose windows and which; empty when none wait.
        """
        if not self.windows:
            return []
        turn = self._turn(now_seconds)
        urgent = self._lead_urgent(now_seconds, window_seconds, call_seconds)
        leader = urgent or self._lead_by_turn(turn)
        owner, waiting, call, its_turn = leader
        taken = {owner: call.take(waiting, its_turn)}
        self._note_gone(owner, taken[owner])
        for owner, waiting in [*self._first.items(), *self._second.items()]:
            if call.is_full():
                break
            if found := call.take(waiting, turn):
                taken.setdefault(owner, []).extend(found)
                self._note_gone(owner, found)
        return list(taken.items())

    def _everyone(self) -> Iterator[tuple[T, _Waiting]]:
        return itertools.chain(self._first.items(), self._second.items())

    def _turn(self, now_seconds: float) -> int:
        """Return how many positions a request may have before it is the next one's turn."""
        while self._of_late and self._of_late[0][0] < now_seconds - _OF_LATE_SECONDS:
            self._of_late.popleft()
        smallest = min(waiting.size for _, waiting in self._everyone())
        if self._of_late:
            smallest = min(smallest, self._of_late[0][1])
        return max(_REQUESTS_A_TURN * smallest, self._filling.positions // 2)

    def _lead_urgent(
        self, now_seconds: float, window_seconds: float, call_seconds: float
    ) -> _Leader[T] | None:
        """Return who can wait no longer: the earliest deadline of those that can be kept."""
        urgent = [
            (owner, waiting)
            for owner, waiting in self._everyone()
            if waiting.deadline - now_seconds
            < max(_URGENT_TIMES * window_seconds * len(waiting.places), call_seconds)
            + _URGENT_SECONDS
        ]
        if not urgent or self._urgent_in_a_row >= _MOST_URGENT_IN_A_ROW:
            self._urgent_in_a_row = 0
            return None
        self._urgent_in_a_row += 1

        def rank(each: tuple[T, _Waiting]) -> tuple[bool, float]:
            deadline, left = each[1].deadline, window_seconds * len(each[1].places)
            return deadline - now_seconds < left, deadline

        owner, waiting = min(urgent, key=rank)
        return owner, waiting, _Call(self._filling, waiting), math.inf

    def _lead_by_turn(self, turn: int) -> _Leader[T]:
        """Return whose turn it is."""
        new, again = self._front(self._first, turn), self._front(self._second, turn)
        if new is not None and (again is None or self._in_a_row < _MOST_IN_A_ROW):
            self._in_a_row += 1
            return *new, _Call(self._filling, new[1]), turn
        assert again is not None  # one of the lines is not empty
        self._in_a_row = 0
        short = self._filling._replace(positions=min(turn, self._filling.positions))
        return *again, _Call(short, again[1]), turn

    def _front(self, line: _Line[T], turn: int) -> tuple[T, _Waiting] | None:
        """Return who is first in a line, after sending away those whose turn is over."""
        while line:
            owner, waiting = next(iter(line.items()))
            next_window = self._filling.padded(waiting.places[-1].length)
            if not waiting.used or waiting.used + next_window <= turn:
                return owner, waiting
            waiting.used = 0
            del line[owner]
            self._second[owner] = waiting
        return None

    def _note_gone(self, owner: T, places: Sequence[WindowPlace]) -> None:
        """Count windows that wait no more; who has none left leaves the line."""
        self.windows -= len(places)
        self._positions -= self._count_positions(places)
        line = self._first if owner in self._first else self._second
        if not line[owner].places:
            del line[owner]

    def _count_positions(self, places: Sequence[WindowPlace]) -> int:
        return sum(self._filling.padded(place.length) for place in places)


class _Call:
    """One call that is being filled, beginning with the longest window of ``leader``."""

    def __init__(self, limits: BatchLimits, leader: _Waiting) -> None:
        self._filling = limits
        first = leader.places[-1].length
        self._least, self._most = first * _SHORTER, first * _LONGER
        self._windows = self._width = 0

    def is_full(self) -> bool:
        """Return whether not even a window of the call's own width fits any more."""
        return bool(self._windows) and self._windows >= self._filling.room(self._width)

    def take(self, waiting: _Waiting, turn: float) -> list[WindowPlace]:
        """Take windows of one request, longest first, while they fit and its turn lasts."""
        taken: list[WindowPlace] = []
        while not self.is_full() and (at := self._fitting(waiting.places)) is not None:
            place = waiting.places[at]
            positions = self._filling.padded(place.length)
            if self._windows and waiting.used + positions > turn:
                break
            waiting.used += positions
            self._windows += 1
            self._width = max(self._width, place.length)
            taken.append(waiting.places.pop(at))
        return taken

    def _fitting(self, places: Sequence[WindowPlace]) -> int | None:
        """Return the number of the longest window that may join the call."""
        if not places or places[-1].length < self._least:
            return None
        if not self._windows:
            return len(places) - 1  # the leader's own, however long it is
        step = self._filling.step
        per_window = self._filling.positions // (self._windows + 1)
        longest = min(self._most, per_window // step * step)
        at = bisect.bisect_right(places, longest, key=_length_of) - 1
        return at if at >= 0 and places[at].length >= self._least else None


# Who leads a call, the call, and how many positions of it the leader may have.
_Leader: TypeAlias = tuple[T, _Waiting, _Call, float]

_length_of = operator.itemgetter(0)
