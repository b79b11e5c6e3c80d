"""Calls at once: as many as there are workers, in order, with the numbers of one after the other."""

from __future__ import annotations

import functools
import gc
import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.judges import FormulaBackend
from trivet.backends.loading import EMBEDDED_BUNDLE, load_backend
from trivet.backends.threads import cores, threads_per_worker, workers_of
from trivet.bundle.bundle import read_bundle
from trivet.data.windows import Windows
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.worker_pool import WorkerPool
from trivet.model.aggregate import Outputs
from trivet.records import Evaluation, RagExample

WAIT_SECONDS = 30.0


def test_as_much_runs_at_once_as_there_are_lanes_and_no_more() -> None:
    workers, gate, running = WorkerPool(2), threading.Event(), threading.Semaphore(0)
    counts: list[int] = []
    at_once = 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal at_once
        with lock:
            at_once += 1
            counts.append(at_once)
        running.release()
        assert gate.wait(WAIT_SECONDS)
        with lock:
            at_once -= 1

    waiting = [workers.submit(work) for _ in range(6)]
    assert running.acquire(timeout=WAIT_SECONDS)
    assert running.acquire(timeout=WAIT_SECONDS)
    gate.set()
    for each in waiting:
        each.result(WAIT_SECONDS)
    assert max(counts) == 2


def test_one_lane_keeps_the_order_and_forgets_what_was_given_up() -> None:
    workers, gate = WorkerPool(1), threading.Event()
    done: list[int] = []
    held = workers.submit(lambda: gate.wait(WAIT_SECONDS))
    first, second, third = (workers.submit(functools.partial(done.append, n)) for n in range(3))
    assert second.cancel()
    gate.set()
    third.result(WAIT_SECONDS)
    assert held.result()
    assert first.done()
    assert done == [0, 2]
    with pytest.raises(CancelledError):
        second.result()


def test_work_is_told_how_much_of_others_runs_or_waits() -> None:
    workers, gate = WorkerPool(1), threading.Event()
    mine, yours = object(), object()
    held = workers.submit_told(lambda _: gate.wait(WAIT_SECONDS), mine)
    told = [
        workers.submit_told(lambda others: others, owner) for owner in (mine, yours, mine, mine)
    ]
    gate.set()
    # One by one: behind the first waits one of another's, behind the second wait two.
    assert [each.result(WAIT_SECONDS) for each in told] == [1, 2, 0, 0]
    assert held.result(WAIT_SECONDS)


def test_threads_that_ask_at_once_take_turns() -> None:
    workers, gate = WorkerPool(1), threading.Event()
    done: list[str] = []
    workers.submit(lambda: gate.wait(WAIT_SECONDS))
    many = [workers.submit(functools.partial(done.append, "many")) for _ in range(5)]

    def ask_once() -> None:
        many.append(workers.submit(functools.partial(done.append, "one")))

    other = threading.Thread(target=ask_once)
    other.start()
    other.join()
    gate.set()
    for each in many:
        each.result(WAIT_SECONDS)
    assert done == ["many", "one", "many", "many", "many", "many"]


def test_lanes_that_nobody_holds_end_their_threads() -> None:
    workers = WorkerPool(2)
    workers.submit(lambda: None).result(WAIT_SECONDS)
    threads = list(workers._workers._threads)
    assert any(thread.is_alive() for thread in threads)
    del workers
    gc.collect()
    for thread in threads:
        thread.join(WAIT_SECONDS)
    assert not any(thread.is_alive() for thread in threads)


ENDING = """
import threading, time
from trivet.evaluation.worker_pool import WorkerPool
workers = WorkerPool(1)

def late():
    time.sleep(0.2)
    print("late", workers.submit(lambda: 42).result(), flush=True)

begun = threading.Event()
workers.submit(lambda: (begun.set(), time.sleep(0.3), print("ran", flush=True)))
waiting = [workers.submit(lambda: print("never", flush=True)) for _ in range(WAITING)]
begun.wait()
LATE
"""


@pytest.mark.parametrize(
    ("late", "waiting", "printed"),
    [("", 3, ["ran"]), ("threading.Thread(target=late).start()", 0, ["ran", "late 42"])],
)
def test_the_end_of_a_process_waits_for_what_runs_and_for_threads_but_not_for_what_waits(
    late: str, waiting: int, printed: list[str]
) -> None:
    script = ENDING.replace("LATE", late).replace("WAITING", str(waiting))
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.splitlines() == printed
    assert ended.stderr == ""


def _sum_in_a_lane(workers: WorkerPool, answers: Any) -> None:
    answers.put(workers.submit(lambda: 40 + 2).result(WAIT_SECONDS))


@pytest.mark.skipif(sys.platform != "linux", reason="fork is safe on Linux alone")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_has_lanes_of_its_own() -> None:
    workers = WorkerPool(1)
    assert workers.submit(lambda: 1).result(WAIT_SECONDS) == 1
    forking = multiprocessing.get_context("fork")
    answers = forking.Queue()
    child = forking.Process(target=_sum_in_a_lane, args=(workers, answers))
    child.start()
    assert answers.get(timeout=WAIT_SECONDS) == 42
    child.join()


def test_threads_are_shared_by_the_lanes() -> None:
    assert threads_per_worker(None, 1) == 0  # the engine's own choice
    assert threads_per_worker(7, 1) == 7
    assert threads_per_worker(7, 2) == 3
    assert threads_per_worker(4, 4) == 1
    assert threads_per_worker(None, cores()) == 1
    with pytest.raises(ValueError, match=r"workers \(3\) must be from 1 to the 2 threads"):
        threads_per_worker(2, 3)
    with pytest.raises(ValueError, match=r"threads \(0\) must be at least 1"):
        threads_per_worker(0, 1)


class Laned(FormulaBackend):
    """A formula with workers, of which the first calls are the slowest."""

    def __init__(self, workers: int) -> None:
        super().__init__()
        self.workers = workers
        self._last = threading.Event()

    def run(self, windows: Windows) -> Outputs:
        if len(self.calls) == 0:
            self.calls.append(())
            self._last.wait(0.2)
        return super().run(windows)


def test_lanes_change_no_number(judge: Evaluator) -> None:
    examples = [
        RagExample("Who?", ("The keeper had a lamp. " * n, "The mill is old."), "The keeper did.")
        for n in (1, 9, 30)
    ]
    found = [
        list(Evaluator(judge.bundle.folder, backend=Laned(workers)).evaluate_many(examples))
        for workers in (1, 3)
    ]
    assert found[0] == found[1]
    assert all(isinstance(each, Evaluation) for each in found[0])


@pytest.mark.parametrize("workers", [1, 2])
def test_the_shipped_engine_takes_calls_in_lanes(
    workers: int, windows_of: Callable[[Path], Windows]
) -> None:
    bundle = read_bundle(EMBEDDED_BUNDLE)
    backend = load_backend(bundle, threads=2, workers=workers).backend
    assert workers_of(backend) == workers
    windows = windows_of(EMBEDDED_BUNDLE)
    expected = backend.run(windows)
    pool = WorkerPool(workers)
    for answer in [pool.submit(lambda: backend.run(windows)) for _ in range(4)]:
        for name, values in answer.result()._asdict().items():
            np.testing.assert_array_equal(values, getattr(expected, name), err_msg=name)


@pytest.fixture
def windows_of() -> Callable[[Path], Windows]:
    """Return a function that reads the self-test of a bundle."""
    from trivet.bundle.bundle import SELF_TEST_NAME
    from trivet.bundle.self_test import read_self_test

    return lambda folder: Windows(**read_self_test(folder / SELF_TEST_NAME).arrays())
