"""Order of competing requests: every window once, calls well filled, no request starved."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.evaluation.packing import BatchLimits
from trivet.serve.scheduling.window_queue import WindowPlace, WindowQueue

Call = list[tuple[str, list[WindowPlace]]]

LONG = [[504] * 41 + [130]]

fillings = st.builds(
    BatchLimits,
    positions=st.integers(64, 4096),
    step=st.sampled_from([1, 32, 64]),
    max_windows=st.none() | st.integers(1, 16),
)
requests = st.lists(
    st.lists(st.lists(st.integers(1, 512), min_size=1, max_size=6), min_size=1, max_size=3),
    max_size=12,
)


def emptied(queue: WindowQueue[str], now_seconds: float = 0.0) -> Iterator[Call]:
    while call := queue.take(now_seconds):
        yield call


def lengths_of(call: Call) -> list[int]:
    return [place.length for _, places in call for place in places]


@given(requests, fillings)
def test_every_window_is_taken_once_in_calls_of_the_wanted_size(
    lengths: list[list[list[int]]], limits: BatchLimits
) -> None:
    queue: WindowQueue[str] = WindowQueue(limits)
    given_windows = []
    for number, own in enumerate(lengths):
        queue.add(str(number), own, 0.0)
        given_windows += [
            (str(number), WindowPlace(length, example, row))
            for example, rows in enumerate(own)
            for row, length in enumerate(rows)
        ]
    assert queue.windows == len(given_windows)
    taken = []
    for call in emptied(queue):
        taken += [(owner, place) for owner, places in call for place in places]
        assert queue.windows == len(given_windows) - len(taken)
        windows = lengths_of(call)
        assert len(windows) == 1 or len(windows) <= limits.windows(max(windows))
        assert min(windows) >= 0.66 * max(windows)
    assert sorted(taken) == sorted(given_windows)
    assert list(queue) == []
    assert not queue.fills_a_call()


def test_requests_of_one_size_are_served_in_order_of_arrival() -> None:
    queue: WindowQueue[int] = WindowQueue(BatchLimits())
    for number in range(20):
        queue.add(number, [[500, 500, 500], [480, 310]], 0.0)
    begun: list[int] = []
    while call := queue.take(0.0):
        begun += [owner for owner, _ in call if owner not in begun]
    assert begun == list(range(20))


@pytest.mark.parametrize("short_length", [120, 400, 500])
@pytest.mark.parametrize("clients", [2, 8, 64])
def test_a_long_request_does_not_hold_up_short_ones_that_keep_coming(
    clients: int, short_length: int
) -> None:
    """Closed loop: whoever is answered asks again. Time is counted in positions computed."""

    def waits(with_long: bool) -> list[int]:
        queue: WindowQueue[str] = WindowQueue(BatchLimits())
        names = (f"short {number}" for number in itertools.count())
        came: dict[str, int] = {}
        now, found = 0, []
        for _ in range(clients):
            came[name := next(names)] = now
            queue.add(name, [[short_length]], now / 5000)
        if with_long:
            queue.add("long", LONG, now / 5000)
        for _ in range(300):
            call = queue.take(now / 5000)
            now += sum(lengths_of(call))
            for owner, _ in call:
                if owner != "long":
                    found.append(now - came[owner])
                    came[name := next(names)] = now
                    queue.add(name, [[short_length]], now / 5000)
        return found

    alone = np.percentile(waits(with_long=False), 99)
    among = np.percentile(waits(with_long=True), 99)
    # A call that runs is not broken off: what comes meanwhile waits for one long window.
    assert alone < among <= max(3 * alone, alone + 504)


def test_a_long_request_ends_under_any_load_of_short_ones() -> None:
    queue: WindowQueue[str] = WindowQueue(BatchLimits())
    queue.add("long", LONG, 0.0)
    names = (f"short {number}" for number in itertools.count())
    calls_with_long = []
    for number in range(400):
        for _ in range(9):  # a call holds eight: the line only grows
            queue.add(next(names), [[120]], 0.0)
        if any(owner == "long" for owner, _ in queue.take(0.0)):
            calls_with_long.append(number)
    # Every window of it ran, at least one in every fourth call.
    assert len(calls_with_long) <= 42
    assert max(np.diff(calls_with_long)) <= 4
    assert calls_with_long[-1] < 390


def test_two_long_ones_take_their_turns() -> None:
    queue: WindowQueue[str] = WindowQueue(BatchLimits())
    queue.add("small", [[100]], 0.0)
    queue.take(0.0)
    for name in ("one", "other"):
        queue.add(name, LONG, 0.0)
    calls = list(emptied(queue))
    # Together they would fill calls, but a short one that comes would have to wait for those.
    assert {len(lengths_of(call)) for call in calls[1:-2]} == {1}
    served = [owner for call in calls for owner, _ in call]
    had = np.cumsum([1 if owner == "one" else -1 for owner in served])
    assert max(abs(had)) <= 2


def test_dropped_windows_are_never_taken() -> None:
    queue: WindowQueue[str] = WindowQueue(BatchLimits(positions=512))
    queue.add("gone", [[500], [500, 400]], 0.0)
    queue.add("half", [[300, 310], [320, 330, 340]], 0.0)
    assert queue.drop("half", 1) == 3
    assert queue.drop("half", 7) == 0
    assert queue.take(0.0) == [("gone", [WindowPlace(500, 1, 0)])]
    assert queue.drop("gone") == 2
    assert queue.drop("gone") == 0
    assert queue.windows == 2
    assert [owner for call in emptied(queue) for owner, _ in call] == ["half", "half"]
    assert queue.take(0.0) == []


@pytest.mark.parametrize(
    ("limits", "waiting", "more"),
    [
        (BatchLimits(1024, 1, max_windows=4), [100, 100, 100], 100),
        (BatchLimits(1024), [500, 500], 24),
    ],
)
def test_a_call_is_full_by_positions_or_by_windows(
    limits: BatchLimits, waiting: list[int], more: int
) -> None:
    queue: WindowQueue[str] = WindowQueue(limits)
    queue.add("a", [waiting], 0.0)
    assert not queue.fills_a_call()
    queue.add("b", [[more]], 0.0)
    assert queue.fills_a_call()
