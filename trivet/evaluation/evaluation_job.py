"""Inference jobs: backend calls of many examples on a pool of worker threads.

On a CPU each core is a worker: cores that share a call wait for one another after every matmul.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import threading
import weakref
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from trivet.backends.backend import Backend
from trivet.data.windows import Layout
from trivet.evaluation.packing import BackendCall, BatchLimits, WindowAccumulator, pack_calls
from trivet.evaluation.postprocessing import Decision, to_evaluation, to_result
from trivet.evaluation.preprocessing import PreprocessedExample, Refusal
from trivet.model.aggregate import Outputs
from trivet.records import Evaluation, FailedEvaluation, RagExample

T = TypeVar("T")
Reading: TypeAlias = Callable[[PreprocessedExample, Outputs, Decision | None], T]
_open_pools: weakref.WeakSet[_Shared] = weakref.WeakSet()
_Waiting = tuple[Future[Any], Callable[[int], Any], int]  # with the identity of its owner

# Answers are added in groups: a thread that every call wakes up would delay the next call.
_ADDED_TOGETHER = 16
_AT_EXIT_SECONDS = 5.0  # wait for each running call; a backend that hangs must not stop the end


class InferenceJob:
    """Layouts whose windows wait for the backend or run."""

    def __init__(
        self,
        layouts: Sequence[Layout],
        backend: Backend,
        pool: WorkerPool,
        pad: int,
        limits: BatchLimits,
    ) -> None:
        """Submit all calls to the workers of the backend; ``pad`` is the token id of padding."""
        self._examples = [WindowAccumulator(layout) for layout in layouts]
        self._calls: deque[Future[BackendCall]] = deque()

        def run(call: BackendCall, at_once: int, others: int) -> BackendCall:
            if call.is_needed():
                call.run(backend, pad, at_once + others)
            return call

        try:
            calls = pack_calls(self._examples, limits)
            rest = len(calls) % pool.count
            for call in calls:
                # The last calls may be too few for all workers.
                at_once = rest if call.number >= len(calls) - rest else pool.count
                work = functools.partial(run, call, at_once)
                self._calls.append(pool.submit(work, owner=run))
        except BaseException:
            self.cancel()
            raise

    def wait(self) -> list[WindowAccumulator]:
        """Wait; return an accumulator for each layout. ``CancelledError`` if it was cancelled."""
        try:
            while self._calls:
                group = list(itertools.islice(self._calls, _ADDED_TOGETHER))
                group[-1].exception()  # waits
                for future in group:  # in order: of several errors the first one counts
                    future.result().add()
                    self._calls.popleft()
        except BaseException:
            self.cancel()
            raise
        return self._examples

    def cancel(self) -> None:
        """Drop the calls that have not run."""
        for call in self._calls:
            call.cancel()


@dataclass(frozen=True, slots=True)
class EvaluationJob:
    """Examples that wait for the backend or run; made by ``Evaluator.begin``."""

    # examples, and failures from the start
    examples: Sequence[RagExample | PreprocessedExample | FailedEvaluation]
    preprocessed: Sequence[PreprocessedExample | Refusal]  # without the failures
    inference: InferenceJob  # of those that were not refused
    # reads the outcomes of the examples from the answers
    postprocess: Callable[[Sequence[WindowAccumulator], Reading[Any]], list[Any]]

    def only(self, reading: Reading[T]) -> T:
        """Wait; return the outcome of the only example, or raise its error."""
        outcomes: list[T | Refusal] = self.postprocess(self.inference.wait(), reading)
        (outcome,) = outcomes
        if isinstance(outcome, Refusal):
            raise outcome
        return outcome

    def outcomes(self, reading: Reading[T]) -> list[T | Refusal]:
        """Wait; return the outcome of each example that did not fail from the start."""
        return self.postprocess(self.inference.wait(), reading)

    def results(self) -> list[Evaluation | FailedEvaluation]:
        """Wait; return one result for each example, in order, also for failures."""
        outcomes = iter(self.outcomes(to_evaluation))
        return [
            each if isinstance(each, FailedEvaluation) else to_result(next(outcomes), each.id)
            for each in self.examples
        ]

    def cancel(self) -> None:
        """Drop the calls that have not run; there are no results then."""
        self.inference.cancel()


class WorkerPool:
    """``count`` threads that run work, in order; submitting threads take turns. Thread-safe.

    A pool of the standard library would run all waiting work when the process ends, and accept
    nothing more as soon as its main thread has ended.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._open()

    def _open(self) -> None:
        self._shared = _Shared()
        weakref.finalize(self, self._shared.close).atexit = False

    def submit(self, work: Callable[[int], T], owner: object) -> Future[T]:
        """Queue work, called with the amount of work of other owners that runs or waits.

        Owners are told apart by identity and must live as long as their work.
        """
        if self._shared.process != os.getpid():
            self._open()  # the threads stayed behind in the process that this one was forked from
        shared = self._shared
        future: Future[T] = Future()
        with shared.changed:
            if len(shared.threads) < self.count:
                thread = threading.Thread(target=shared.serve, name="trivet-worker", daemon=True)
                thread.start()
                shared.threads.append(thread)
            queue = shared.waiting.setdefault(threading.get_ident(), deque())
            queue.append((future, work, id(owner)))
            shared.owners[id(owner)] += 1
            shared.changed.notify()
        return future


class _Shared:
    """State that the threads of a pool share; it does not keep the pool alive."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.changed = threading.Condition()
        self.threads: list[threading.Thread] = []
        self.waiting: OrderedDict[int, deque[_Waiting]] = OrderedDict()  # by submitting thread
        self.owners: Counter[int] = Counter()  # amount of work that waits or runs, by owner
        self._closed = False
        _open_pools.add(self)

    def close(self, join_seconds: float = 0.0) -> None:
        """Cancel what waits, let the threads end after their current work, and wait for that."""
        if self.process != os.getpid():
            return  # forked: a lock that was held then will never be released here
        with self.changed:
            self._closed = True
            for future, _, _ in itertools.chain.from_iterable(self.waiting.values()):
                future.cancel()
            self.waiting.clear()
            self.changed.notify_all()
        for thread in self.threads if join_seconds else ():
            thread.join(join_seconds)

    def serve(self) -> None:
        """Run work until the pool is closed."""
        while True:
            with self.changed:
                while not self.waiting:
                    if self._closed:
                        return
                    self.changed.wait()
                submitter, queue = self.waiting.popitem(last=False)
                future, work, owner = queue.popleft()
                if queue:
                    self.waiting[submitter] = queue
                others = self.owners.total() - self.owners[owner]
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work(others))
                except BaseException as error:  # belongs to the thread that waits for the result
                    future.set_exception(error)
            with self.changed:
                self.owners -= Counter([owner])
            del future, work  # else an idle worker would keep its last answer


@atexit.register
def _close_all() -> None:
    """End all pools before the interpreter ends under running calls."""
    for shared in list(_open_pools):
        shared.close(_AT_EXIT_SECONDS)
