"""The scheduler's threads, turns and end; the threads of a call; blocks that are begun ahead."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.judges import FormulaBackend, GatedBackend, ManyThreads, Panic
from trivet.backends.backend import Backend
from trivet.data.tokenization import SegmentTokenizer, tokenize_examples
from trivet.data.windows import Layout, Windows, WindowSettings, lay_out
from trivet.errors import BackendError
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.packing import BatchLimits, WindowAccumulator
from trivet.evaluation.scheduler import Scheduler
from trivet.evaluation.streams import prefetch
from trivet.evaluation.window_queue import Job
from trivet.model.aggregate import Outputs
from trivet.records import Evaluation, RagExample

WAIT_SECONDS = 30.0
LONG, SHORT = "The keeper had a lamp. ", "The ferry is red."


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
    return [lay_out_one(LONG) for _ in range(16)]


def scheduler_of(backend: Backend) -> Scheduler:
    """Return a scheduler of one window a call."""
    return Scheduler(backend, 0, BatchLimits(1))


def job_of(*layouts: Layout, shared: bool = False) -> Job:
    return Job([WindowAccumulator(layout) for layout in layouts], shared=shared)


@pytest.mark.anyio
async def test_as_many_calls_run_at_once_as_there_are_workers(
    layouts: list[Layout], formula: FormulaBackend
) -> None:
    gated = GatedBackend(formula, workers=2)
    scheduler = scheduler_of(gated)
    job = scheduler.submit(job_of(*layouts[:6]))
    await gated.begun(2)
    assert (len(gated.calls), scheduler.queue.windows) == (2, 4)
    assert scheduler.call_seconds is not None
    gated.let(100)
    job.wait()
    assert (len(gated.calls), scheduler.queue.windows) == (6, 0)


@pytest.mark.anyio
async def test_a_short_job_of_another_thread_overtakes_a_long_one(
    lay_out_one: Callable[[str], Layout], gated: GatedBackend
) -> None:
    long, short = lay_out_one(LONG * 60), lay_out_one(SHORT)
    scheduler, jobs = scheduler_of(gated), [job_of(long)]
    scheduler.submit(jobs[0])
    await gated.begun(1)
    other = threading.Thread(target=lambda: jobs.append(scheduler.submit(job_of(short))))
    other.start()
    other.join()
    gated.let(100)
    for job in jobs:
        job.wait()
    overtaken = gated.windows_with(int(short.rows[0][3]))
    assert len(long.rows) > 5 and sum(overtaken[:3]) == 1


DROPPED = """
import gc, threading
import trivet

evaluator = trivet.Evaluator(threads=1)
before = set(threading.enumerate())
evaluator.evaluate("When?", ["It was built in 1817."], "In 1817.")
threads = set(threading.enumerate()) - before
assert threads
del evaluator
gc.collect()
for thread in threads:
    thread.join(60)
assert not any(thread.is_alive() for thread in threads)
"""


def test_the_threads_of_an_evaluator_end_with_it() -> None:
    # In a process of its own: garbage of other tests is not this test's business.
    subprocess.run([sys.executable, "-c", DROPPED], timeout=120, check=True)


ENDING = """
import threading
import trivet
evaluator, main, begun = trivet.Evaluator(threads=1), threading.main_thread(), threading.Event()
arguments = "When?", ["It was built in 1817. " * 400], "In 1817."
run = evaluator.backend.run

def waits(windows):
    begun.set()
    main.join()
    print("ran", flush=True)
    return run(windows)

def late():
    main.join()
    evaluator.backend.run = run
    print("late", evaluator.evaluate("When?", ["In 1817."], "In 1817.").windows, flush=True)

LATE
evaluator.backend.run = waits
evaluator.begin([trivet.RagExample(*arguments)])
begun.wait()
"""


@pytest.mark.parametrize(
    ("late", "printed"),
    [("", ["ran"]), ("threading.Thread(target=late).start()", ["ran", "late 1"])],
)
def test_the_end_of_a_process_waits_for_running_calls_and_threads_but_not_for_waiting_windows(
    late: str, printed: list[str]
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ENDING.replace("LATE", late)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert sorted(set(ended.stdout.splitlines())) == sorted(printed)
    assert ended.stderr == ""


def _evaluate_in_a_fork(judge: Evaluator, answers: Any) -> None:
    answers.put(judge.evaluate("Who?", [LONG], "The keeper.").windows)


@pytest.mark.skipif(sys.platform != "linux", reason="fork is safe on Linux alone")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own(judge: Evaluator) -> None:
    assert judge.evaluate("Who?", [LONG], "The keeper.").windows == 1
    forking = multiprocessing.get_context("fork")
    answers = forking.Queue()
    child = forking.Process(target=_evaluate_in_a_fork, args=(judge, answers))
    child.start()
    assert answers.get(timeout=WAIT_SECONDS) == 1
    child.join()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("workers", "calls", "all_threads"),
    [(1, 1, 0), (2, 1, 1), (2, 2, 0), (2, 11, 1), (4, 2, 2), (4, 3, 0), (4, 5, 1), (8, 11, 3)],
)
def test_the_last_calls_get_all_threads_if_they_leave_half_of_the_workers_idle(
    layouts: list[Layout],
    formula: FormulaBackend,
    workers: int,
    calls: int,
    all_threads: int,
    shared: bool,
) -> None:
    backend = ManyThreads(formula, workers)
    scheduler_of(backend).submit(job_of(*layouts[:calls], shared=shared)).wait()
    assert len(backend.all_threads) == calls
    assert sum(backend.all_threads) == all_threads


@pytest.mark.anyio
async def test_cancelling_ends_the_waiting_at_once(
    layouts: list[Layout], gated: GatedBackend
) -> None:
    job = scheduler_of(gated).submit(job_of(*layouts[:3]))
    await gated.begun(1)
    threading.Thread(target=job.cancel).start()
    with pytest.raises(CancelledError):
        job.wait()  # while the worker is still occupied
    gated.let(100)


def test_an_example_that_failed_runs_no_further(lay_out_one: Callable[[str], Layout]) -> None:
    layout, backend = lay_out_one(LONG * 60), FormulaBackend()
    backend.raises_on = int(layout.rows[0][0])
    job = scheduler_of(backend).submit(job_of(layout))
    job.wait()
    with pytest.raises(BackendError, match="told to fail"):
        job.accumulators[0].join("weakest_token")
    assert len(layout.rows) > 5 and len(backend.calls) == 1


@pytest.mark.parametrize("error", [ZeroDivisionError("by zero"), Panic("deep down")])
def test_an_unexpected_error_is_that_of_its_examples_and_ends_no_thread(
    layouts: list[Layout],
    formula: FormulaBackend,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    def broken(windows: Windows) -> Outputs:
        raise error

    scheduler = scheduler_of(formula)
    with monkeypatch.context() as patched:
        patched.setattr(formula, "run", broken)
        lost = scheduler.submit(job_of(layouts[0]))
        lost.wait()
    message = f"the backend call met {type(error).__name__}: {error}"
    with pytest.raises(BackendError, match=message):
        lost.accumulators[0].join("weakest_token")
    fine = scheduler.submit(job_of(layouts[0]))
    fine.wait()
    fine.accumulators[0].join("weakest_token")


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
        RagExample("Who?", (LONG * n, "The mill is old."), "The keeper did.") for n in (1, 9, 30)
    ]
    backends = [SlowStart(workers) for workers in (1, 3, 8)]
    judges = [Evaluator(judge.bundle.folder, backend=backend, positions=1) for backend in backends]
    alone, *others = [list(evaluator.evaluate_many(examples)) for evaluator in judges]
    assert others == [alone, alone]
    assert all(isinstance(verdict, Evaluation) for verdict in alone)


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
