"""Deadlines come before turns, and little work is done for answers that come too late."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.evaluation.packing import BatchLimits
from trivet.serve.scheduling.admission import Admission
from trivet.serve.scheduling.batched_request import Overloaded
from trivet.serve.scheduling.window_queue import WindowQueue

POSITION_SECONDS = 1e-4
LONG = [[500] * 20]


def test_urgent_requests_lead_two_calls_of_three() -> None:
    queue: WindowQueue[str] = WindowQueue(BatchLimits())
    for number in range(20):
        queue.add(f"patient {number}", [[500, 500]], 0.0, deadline=60.0)
    queue.add("urgent", LONG, 0.0, deadline=2.0)
    queue.add("later", LONG, 0.0, deadline=2.1)
    leaders = [queue.take(0.0, window_seconds=0.05)[0][0] for _ in range(7)]
    assert [name.split()[0] for name in leaders] == ["urgent", "urgent", "patient"] * 2 + ["urgent"]


def test_no_request_is_urgent_while_there_is_time() -> None:
    queue: WindowQueue[str] = WindowQueue(BatchLimits(positions=1024))
    queue.add("patient", [[500]], 0.0)
    queue.add("hasty", [[500]], 0.0, deadline=3.0)
    queue.add("hasty, too", [[500]], 0.0, deadline=2.0)
    assert [owner for owner, _ in queue.take(0.0, 0.05)] == ["patient", "hasty"]
    # Among urgent requests, those that can still be in time go first.
    queue = WindowQueue(BatchLimits())
    queue.add("lost", LONG, 0.0, deadline=0.5)
    queue.add("saved", LONG, 0.0, deadline=1.5)
    assert queue.take(0.0, window_seconds=0.05)[0][0] == "saved"


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), max_size=8),
    st.integers(0, 5),
    st.integers(1, 9),
)
def test_windows_before_a_request_are_bounded(
    waiting: list[tuple[int, int]], deadline: int, own: int
) -> None:
    queue: WindowQueue[int] = WindowQueue(BatchLimits())
    for number, (due, windows) in enumerate(waiting):
        queue.add(number, [[100] * windows], 0.0, float(due))
    due_first = own + sum(windows for due, windows in waiting if due <= deadline)
    before = queue.windows_before(float(deadline), own)
    assert own <= before <= min(2 * due_first, queue.windows + own)


def test_a_long_request_keeps_no_short_one_out() -> None:
    admission = Admission(max_requests=99, max_windows=9999, window_size=512)
    admission.note_call(windows=1, seconds=0.05)
    queue: WindowQueue[str] = WindowQueue(BatchLimits())
    queue.add("long", [[500] * 400], 0.0, deadline=30.0)
    before = queue.windows_before(31.0, own=1)
    admission.check_queue(own=1, before=before, left_seconds=3.0, waiting=400)
    queue.add("short", [[500]], 0.0, deadline=31.0)
    calls = [[owner for owner, _ in queue.take(0.0, 0.05)] for _ in range(before)]
    assert any("short" in owners for owners in calls)


@dataclass(eq=False)
class Asked:
    """One request of the simulation; all times in its seconds."""

    deadline: float
    windows: int
    left: int


def simulate(load: float, time_outs: tuple[float, ...], seed: int) -> tuple[float, float]:
    """Ask at random for 30 simulated seconds for ``load`` times what the backend can do.

    Returns:
        The windows of answers that came in time, as a share of what the backend can do without
        padding, and the share of those that ran whose answers came too late.
    """
    random = np.random.default_rng(seed)
    admission = Admission(max_requests=10_000, max_windows=10_000, window_size=512)
    queue: WindowQueue[Asked] = WindowQueue(BatchLimits())
    sizes = [[int(n) for n in random.integers(60, 512, random.geometric(0.25))] for _ in range(64)]
    request_seconds = POSITION_SECONDS * float(np.mean([sum(size) for size in sizes]))
    moments = np.cumsum(
        random.exponential(request_seconds / load, int(30 * load / request_seconds))
    )
    arrivals = zip(moments, itertools.cycle(sizes))
    coming = next(arrivals, None)
    now, good, lost = 0.0, 0, 0
    while coming is not None or queue.windows:
        while coming is not None and (coming[0] <= now or not queue.windows):
            now = max(now, float(coming[0]))
            asked = Asked(coming[0] + random.choice(time_outs), *[len(coming[1])] * 2)
            try:
                before = queue.windows_before(asked.deadline, asked.windows)
                admission.check_queue(asked.windows, before, asked.deadline - now, queue.windows)
                queue.add(asked, [coming[1]], now, asked.deadline)
            except Overloaded:
                assert queue.windows
            coming = next(arrivals, None)
        for late in [asked for asked in queue if asked.deadline <= now]:
            lost += late.windows - queue.drop(late)
        call = queue.take(now, admission.window_seconds)
        lengths = [place.length for _, places in call for place in places]
        if not lengths:
            continue
        seconds = POSITION_SECONDS * len(lengths) * max(lengths) * random.uniform(0.7, 1.3)
        admission.note_call(len(lengths), seconds)
        now += seconds
        for asked, places in call:
            asked.left -= len(places)
            if not asked.left:
                good += asked.windows * (now <= asked.deadline)
                lost += asked.windows * (now > asked.deadline)
    window_seconds = request_seconds / float(np.mean([len(size) for size in sizes]))
    return good * window_seconds / now, lost / (good + lost)


@pytest.mark.parametrize("time_outs", [(3.0,), (20.0,), (3.0, 20.0)])
@pytest.mark.parametrize(
    ("load", "least", "max_lost"), [(1.0, 0.8, 0.01), (2.0, 0.9, 0.05), (5.0, 0.85, 0.1)]
)
def test_an_overloaded_backend_does_little_work_in_vain(
    load: float, least: float, max_lost: float, time_outs: tuple[float, ...]
) -> None:
    good, lost = zip(*(simulate(load, time_outs, seed) for seed in range(4)), strict=True)
    # With answers that nobody waits for in time it is .94: padding takes the rest.
    assert np.mean(good) > least
    assert np.mean(lost) < max_lost
