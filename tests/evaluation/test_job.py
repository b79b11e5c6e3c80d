"""Inference jobs, worker pools and prefetching: order, turns, threads of a call, and the end."""

from __future__ import annotations

import functools
import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.judges import FormulaBackend, ManyThreads
from trivet.data.tokenization import SegmentTokenizer, tokenize_examples
from trivet.data.windows import Layout, Windows, WindowSettings, lay_out
from trivet.errors import BackendError
from trivet.evaluation.evaluation_job import InferenceJob, WorkerPool
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.packing import BatchLimits
from trivet.evaluation.streams import prefetch
from trivet.model.aggregate import Outputs
from trivet.records import Evaluation, RagExample

WAIT_SECONDS = 30.0


class Gate:
    """Work that begins, and then waits until it is let through."""

    def __init__(self) -> None:
        self._begun = threading.Semaphore(0)
        self._open = threading.Event()

    def hold(self, pool: WorkerPool, owner: object = None) -> Future[bool]:
        """Occupy a worker."""

        def work(_: int) -> bool:
            self._begun.release()
            return self._open.wait(WAIT_SECONDS)

        return pool.submit(work, owner)

    def begun(self) -> None:
        """Wait until one more work has begun."""
        assert self._begun.acquire(timeout=WAIT_SECONDS)

    def open(self) -> None:
        """Let all through."""
        self._open.set()


@pytest.fixture
def gate() -> Gate:
    return Gate()


def append(values: list[Any], value: Any, _: int) -> None:
    values.append(value)


def test_as_much_runs_at_once_as_there_are_workers(gate: Gate) -> None:
    pool = WorkerPool(2)
    held = [gate.hold(pool) for _ in range(6)]
    gate.begun()
    gate.begun()
    assert [each.running() for each in held] == [True, True, False, False, False, False]
    gate.open()
    assert all(each.result(WAIT_SECONDS) for each in held)


def test_one_worker_keeps_the_order_and_skips_cancelled_work(gate: Gate) -> None:
    pool, done = WorkerPool(1), list[int]()
    gate.hold(pool)
    gate.begun()
    _, second, third = (pool.submit(functools.partial(append, done, n), None) for n in range(3))
    assert second.cancel()
    gate.open()
    third.result(WAIT_SECONDS)
    assert done == [0, 2]
    with pytest.raises(CancelledError):
        second.result()


def test_threads_that_submit_at_once_take_turns(gate: Gate) -> None:
    pool, done = WorkerPool(1), list[str]()
    gate.hold(pool)
    gate.begun()
    submitted = [pool.submit(functools.partial(append, done, "many"), None) for _ in range(5)]

    def submit_one() -> None:
        submitted.append(pool.submit(functools.partial(append, done, "one"), None))

    other = threading.Thread(target=submit_one)
    other.start()
    other.join()
    gate.open()
    for each in submitted:
        each.result(WAIT_SECONDS)
    assert done == ["many", "one", "many", "many", "many", "many"]


DROPPED = """
import gc
import threading
from trivet.evaluation.evaluation_job import WorkerPool

before = set(threading.enumerate())
pool = WorkerPool(2)
pool.submit(lambda _: None, None).result(60)
threads = set(threading.enumerate()) - before
assert threads
del pool
gc.collect()
for thread in threads:
    thread.join(60)
assert not any(thread.is_alive() for thread in threads)
"""


def test_the_threads_of_a_pool_end_with_it() -> None:
    # In a process of its own: garbage of other tests is not this test's business.
    subprocess.run([sys.executable, "-c", DROPPED], timeout=120, check=True)


ENDING = """
import threading
from trivet.evaluation.evaluation_job import WorkerPool
pool, main = WorkerPool(1), threading.main_thread()

def late():
    main.join()
    print("late", pool.submit(lambda _: 42, None).result(), flush=True)

begun = threading.Event()

def run(_):
    begun.set()
    main.join()
    print("ran", flush=True)

pool.submit(run, None)
waiting = [pool.submit(lambda _: print("never", flush=True), None) for _ in range(WAITING)]
begun.wait()
LATE
"""


@pytest.mark.parametrize(
    ("late", "waiting", "printed"),
    [("", 3, ["ran"]), ("threading.Thread(target=late).start()", 0, ["ran", "late 42"])],
)
def test_the_end_of_a_process_waits_for_running_work_and_threads_but_not_for_waiting_work(
    late: str, waiting: int, printed: list[str]
) -> None:
    script = ENDING.replace("LATE", late).replace("WAITING", str(waiting))
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.splitlines() == printed
    assert ended.stderr == ""


def _sum_in_a_worker(pool: WorkerPool, answers: Any) -> None:
    answers.put(pool.submit(lambda _: 40 + 2, None).result(WAIT_SECONDS))


@pytest.mark.skipif(sys.platform != "linux", reason="fork is safe on Linux alone")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_has_workers_of_its_own() -> None:
    pool = WorkerPool(1)
    assert pool.submit(lambda _: 1, None).result(WAIT_SECONDS) == 1
    forking = multiprocessing.get_context("fork")
    answers = forking.Queue()
    child = forking.Process(target=_sum_in_a_worker, args=(pool, answers))
    child.start()
    assert answers.get(timeout=WAIT_SECONDS) == 42
    child.join()


@pytest.fixture
def lay_out_one(tokenizer: SegmentTokenizer) -> Callable[[str], Layout]:
    """Return a function that lays out an example with one context."""

    def make(context: str) -> Layout:
        (tokens,) = tokenize_examples([RagExample("Who?", (context,), "The keeper.")], tokenizer)
        return lay_out(tokens, WindowSettings(size=48), tokenizer.special)

    return make


@pytest.fixture
def layouts(lay_out_one: Callable[[str], Layout]) -> list[Layout]:
    """Return layouts of one window each."""
    return [lay_out_one("The keeper had a lamp.") for _ in range(16)]


@pytest.mark.parametrize(
    ("workers", "calls", "all_threads"),
    [(1, 1, 0), (2, 1, 1), (2, 2, 0), (2, 11, 1), (4, 2, 2), (4, 3, 0), (4, 5, 1), (8, 11, 3)],
)
def test_the_last_calls_get_all_threads_if_they_leave_half_of_the_workers_idle(
    layouts: list[Layout], formula: FormulaBackend, workers: int, calls: int, all_threads: int
) -> None:
    backend, pool = ManyThreads(formula, workers), WorkerPool(workers)
    InferenceJob(layouts[:calls], backend, pool, 0, BatchLimits(1)).wait()
    assert len(backend.all_threads) == calls
    assert sum(backend.all_threads) == all_threads


def test_cancelling_ends_the_waiting_at_once(layouts: list[Layout], gate: Gate) -> None:
    backend, pool = FormulaBackend(), WorkerPool(1)
    held = gate.hold(pool)
    job = InferenceJob(layouts[:3], backend, pool, 0, BatchLimits(1))
    threading.Thread(target=job.cancel).start()
    with pytest.raises(CancelledError):
        job.wait()
    assert not held.done(), "the worker is still occupied"
    gate.open()


def test_an_example_that_failed_runs_no_further(lay_out_one: Callable[[str], Layout]) -> None:
    layout, backend = lay_out_one("The keeper had a lamp. " * 60), FormulaBackend()
    backend.raises_on = int(layout.rows[0][0])
    pool = WorkerPool(1)
    (failed,) = InferenceJob([layout], backend, pool, 0, BatchLimits(1)).wait()
    with pytest.raises(BackendError, match="told to fail"):
        failed.join("weakest_token")
    assert len(layout.rows) > 5 and len(backend.calls) == 1


def test_an_unexpected_error_is_raised_to_the_caller(layouts: list[Layout]) -> None:
    class Broken(FormulaBackend):
        def run(self, windows: Windows) -> Outputs:
            raise ZeroDivisionError("by zero")

    pool = WorkerPool(1)
    with pytest.raises(ZeroDivisionError):
        InferenceJob(layouts, Broken(), pool, 0, BatchLimits(1)).wait()


class SlowStart(FormulaBackend):
    """A formula with workers, whose first call ends after a later one."""

    def __init__(self, workers: int) -> None:
        super().__init__()
        self.workers = workers
        self._later = threading.Event()
        self._begun = threading.Lock()

    def run(self, windows: Windows) -> Outputs:
        if self._begun.acquire(blocking=False):
            assert self.workers == 1 or self._later.wait(WAIT_SECONDS)
        self._later.set()
        return super().run(windows)


def test_workers_change_no_number(judge: Evaluator) -> None:
    examples = [
        RagExample("Who?", ("The keeper had a lamp. " * n, "The mill is old."), "The keeper did.")
        for n in (1, 9, 30)
    ]
    backends = [SlowStart(workers) for workers in (1, 3, 8)]
    judges = [Evaluator(judge.bundle.folder, backend=each, positions=1) for each in backends]
    alone, *others = [list(each.evaluate_many(examples)) for each in judges]
    assert others == [alone, alone]
    assert all(isinstance(each, Evaluation) for each in alone)


class Work:
    """A block that was begun."""

    def __init__(self, block: int) -> None:
        self.block = block
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


@given(st.integers(0, 8), st.integers(1, 4), st.integers(0, 8))
def test_blocks_come_in_order_and_the_next_ones_are_begun_before(
    blocks: int, ahead: int, taken: int
) -> None:
    """A caller who stops early cancels all that was begun."""
    begun: list[Work] = []

    def begin(block: int) -> Work:
        begun.append(Work(block))
        return begun[-1]

    works = prefetch(range(blocks), begin, ahead)
    for number in range(min(taken, blocks)):
        assert next(works).block == number
        assert len(begun) == min(blocks, number + 1 + ahead)
    if taken > blocks:
        assert list(works) == []
    works.close()  # type: ignore[attr-defined]
    # A block is done when the next one is taken.
    assert all(work.cancelled == (work.block >= taken - 1) for work in begun)


@pytest.mark.parametrize("source", ["reading", "beginning"])
def test_an_error_comes_after_the_blocks_that_were_begun_before(source: str) -> None:
    def check(block: int, stage: str) -> int:
        if block == 3 and stage == source:
            raise LookupError("broken off")
        return block

    seen = []
    blocks = (check(block, "reading") for block in range(9))
    with pytest.raises(LookupError, match="broken off"):
        for work in prefetch(blocks, lambda block: Work(check(block, "beginning"))):
            assert not work.cancelled
            seen.append(work.block)
    assert seen == [0, 1, 2]
