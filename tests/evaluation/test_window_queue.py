"""Two laws: no job starves, and a short one overtakes within bounds. And every window runs once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.evaluation.packing import BatchLimits
from trivet.evaluation.window_queue import Expired, Job, Overloaded, WindowPlace, WindowQueue

Call = dict[Job, list[WindowPlace]]
POSITION_SECONDS = 1e-4

fillings = st.builds(
    BatchLimits,
    positions=st.integers(64, 4096),
    step=st.sampled_from([1, 32, 64]),
    max_windows=st.none() | st.integers(1, 16),
)
sizes = st.lists(st.integers(1, 512), min_size=1, max_size=9)


def job(lengths: Sequence[int], deadline: float = math.inf, shared: bool = True) -> Job:
    """Return a job of one example with windows of these lengths."""
    example: Any = SimpleNamespace(layout=SimpleNamespace(rows=[range(size) for size in lengths]))
    return Job([example], deadline, shared)


def emptied(queue: WindowQueue) -> Iterator[Call]:
    while queue.windows:
        yield queue.take(0.0)[1]


def lengths_of(call: Call) -> list[int]:
    return [window.length for windows in call.values() for window in windows]


@given(st.lists(sizes, max_size=12), fillings, st.booleans())
def test_every_window_is_taken_once_in_calls_of_the_wanted_size(
    lengths: list[list[int]], limits: BatchLimits, shared: bool
) -> None:
    queue = WindowQueue(limits)
    jobs = [job(part, shared=shared) for part in lengths]
    for request in jobs:
        queue.add(request, 0.0)
    whole = queue.windows
    assert whole == sum(map(len, lengths))
    taken: list[tuple[int, int]] = []
    for call in emptied(queue):
        taken += [
            (jobs.index(owner), window.row) for owner, places in call.items() for window in places
        ]
        assert queue.windows == whole - len(taken)
        windows = lengths_of(call)
        assert len(windows) == 1 or len(windows) <= limits.windows(max(windows))
        assert min(windows) >= 0.66 * max(windows) if shared else len(call) == 1
    assert sorted(taken) == [(n, row) for n, work in enumerate(jobs) for row in range(work.windows)]


@given(sizes, st.lists(sizes, max_size=5), fillings)
def test_the_calls_of_a_job_that_is_not_shared_depend_on_nothing_else(
    lengths: list[int], others: list[list[int]], limits: BatchLimits
) -> None:
    def calls(among: list[list[int]]) -> list[list[int]]:
        queue, lone = WindowQueue(limits), job(lengths, shared=False)
        queue.add(lone, 0.0)
        for other in among:
            queue.add(job(other), 0.0)
        return [[window.row for window in call[lone]] for call in emptied(queue) if lone in call]

    alone = calls([])
    assert calls(others) == alone
    rows = [row for call in alone for row in call]
    assert rows == sorted(range(len(lengths)), key=lambda row: -lengths[row])


@given(st.lists(sizes, max_size=6), sizes, st.lists(st.tuples(sizes, st.booleans())), fillings)
def test_no_job_starves_whatever_comes_after_it(
    before: list[list[int]],
    lengths: list[int],
    later: list[tuple[list[int], bool]],
    limits: BatchLimits,
) -> None:
    """It ends within four calls for each window of its own and of those that came before it."""
    queue, request = WindowQueue(limits), job(lengths)
    queue.note_call(1, 0.05)
    for waiting in (*map(job, before), request):
        queue.add(waiting, 0.0)
    bound = 4 * queue.windows
    endless = itertools.cycle(later or [([1], True)])
    calls = 0
    while request.places:
        more, hurries = next(endless)
        queue.add(job(more, 1e6 if hurries else math.inf), 0.0)
        queue.take(1e6 - 1.0)  # those that hurry are urgent
        calls += 1
    assert calls <= bound


@given(st.integers(1, 6), st.lists(st.integers(7, 40), min_size=1, max_size=6), st.integers(0, 9))
def test_a_short_job_overtakes_longer_ones_within_bounds(
    windows: int, longer: list[int], began: int
) -> None:
    """At least three of four calls are its own, whatever waits and however long."""
    queue = WindowQueue(BatchLimits(512))
    for other in longer:
        queue.add(job([500] * (other + began)), 0.0)
    for _ in range(began):
        queue.take(0.0)
    short = job([500] * windows)
    queue.add(short, 0.0)
    calls = 0
    while short.places:
        queue.take(0.0)
        calls += 1
    assert calls <= windows + math.ceil(windows / 3)


def test_an_urgent_job_that_can_be_in_time_comes_before_shorter_ones() -> None:
    queue = WindowQueue(BatchLimits(512))
    queue.note_call(1, 0.05)
    patient, lost, saved = (job([500] * n, due) for n, due in ((1, 60.0), (20, 0.5), (20, 1.5)))
    for request in (patient, lost, saved):
        queue.add(request, -60.0)
    assert [queue.take(0.0)[0] for _ in range(4)] == [saved, saved, saved, patient]
    queue.drop_ended(1.0)
    assert isinstance(lost.done.exception(), Expired)
    assert queue.windows == 17


def test_jobs_of_a_thread_that_are_not_shared_run_in_their_order() -> None:
    queue = WindowQueue(BatchLimits(512))
    first, second = job([500] * 9, shared=False), job([500], shared=False)
    queue.add(first, 0.0)
    queue.add(second, 0.0)
    assert [queue.take(0.0)[0] for _ in range(10)] == [first] * 9 + [second]


@pytest.mark.parametrize(
    ("limits", "waiting", "more"),
    [(BatchLimits(1024, 1, 4), [100] * 3, 100), (BatchLimits(1024), [500, 500], 24)],
)
def test_a_call_is_full_by_positions_or_by_windows(
    limits: BatchLimits, waiting: list[int], more: int
) -> None:
    queue = WindowQueue(limits)
    queue.add(job(waiting), 0.0)
    assert not queue.fills_a_call()
    queue.add(job([more]), 0.0)
    assert queue.fills_a_call()


def test_more_windows_than_may_wait_are_accepted_only_while_none_wait() -> None:
    queue = WindowQueue(BatchLimits(512), max_windows=10)
    queue.add(job([500] * 12), 0.0)
    with pytest.raises(Overloaded, match="12 windows wait, and these are 1 more") as caught:
        queue.add(job([500]), 0.0)
    assert (caught.value.reason, caught.value.retry_after_seconds) == ("windows", 1.0)
    for _ in range(200):
        queue.note_call(windows=2, seconds=0.1)
    assert queue.overloaded("requests", "").retry_after_seconds == pytest.approx(12 * 0.05)


def test_a_job_that_would_hardly_be_in_time_is_refused() -> None:
    queue = WindowQueue(BatchLimits(512))
    queue.note_call(windows=1, seconds=0.05)
    queue.add(job([500] * 20, 0.1), 0.0)  # it may try: nothing else waits
    queue.add(job([500], 0.5), 0.0)  # it overtakes
    with pytest.raises(Overloaded, match=r"21 windows would run .* and 1\.0 are left") as caught:
        queue.add(job([500] * 20, 1.0), 0.0)
    assert caught.value.reason == "time"
    queue.add(job([500] * 20), 0.0)


def simulate(load: float, time_outs: tuple[float, ...], seed: int) -> tuple[float, float]:
    """Ask at random for 30 simulated seconds for ``load`` times what the backend can do.

    Returns:
        The windows of answers that came in time, as a share of what the backend can do without
        padding, and the share of those that ran whose answers came too late.
    """
    random, queue = np.random.default_rng(seed), WindowQueue(BatchLimits(512))
    asked = [[int(n) for n in random.integers(60, 512, random.geometric(0.25))] for _ in range(64)]
    job_seconds = POSITION_SECONDS * float(np.mean([sum(lengths) for lengths in asked]))
    moments = np.cumsum(random.exponential(job_seconds / load, int(30 * load / job_seconds)))
    arrivals = zip(moments, itertools.cycle(asked), strict=False)
    coming = next(arrivals, None)
    now, good, lost, jobs = 0.0, 0, 0, list[Job]()
    while coming is not None or queue.windows:
        while coming is not None and (coming[0] <= now or not queue.windows):
            now = max(now, float(coming[0]))
            request = job(coming[1], coming[0] + random.choice(time_outs))
            try:
                queue.add(request, now)
                jobs.append(request)
            except Overloaded:
                assert queue.windows
            coming = next(arrivals, None)
        queue.drop_ended(now)
        if queue.windows:
            lengths = lengths_of(call := queue.take(now)[1])
            seconds = POSITION_SECONDS * len(lengths) * max(lengths) * random.uniform(0.7, 1.3)
            queue.note_call(len(lengths), seconds)
            now += seconds
            for owner, places in call.items():
                owner.count_off(len(places), 0.0, 0.0)
                if owner.done.done() and now > owner.deadline:
                    lost += owner.windows
                    jobs.remove(owner)
    for ended in jobs:
        if ended.done.exception() is None:
            good += ended.windows
        else:
            lost += ended.windows - len(ended.places)
    window_seconds = job_seconds / float(np.mean([len(lengths) for lengths in asked]))
    return good * window_seconds / now, lost / (good + lost)


@pytest.mark.parametrize("time_outs", [(3.0,), (20.0,), (3.0, 20.0)])
@pytest.mark.parametrize(
    ("load", "least", "max_lost"), [(1.0, 0.85, 0.01), (2.0, 0.9, 0.02), (5.0, 0.9, 0.05)]
)
def test_an_overloaded_backend_does_little_work_in_vain(
    load: float, least: float, max_lost: float, time_outs: tuple[float, ...]
) -> None:
    good, lost = zip(*(simulate(load, time_outs, seed) for seed in range(2)), strict=True)
    assert np.mean(good) > least
    assert np.mean(lost) < max_lost
