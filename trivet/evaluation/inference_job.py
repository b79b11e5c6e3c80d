"""Many layouts on their way through the engine, while who asked does other work."""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from trivet.backends.backend import Backend
from trivet.backends.threads import are_few
from trivet.data.windows import Layout
from trivet.evaluation.packing import BatchLimits, WindowAccumulator, WindowSlice, pack, run_slices
from trivet.evaluation.worker_pool import WorkerPool
from trivet.model.aggregate import Outputs
from trivet.model.architecture import Reduction
from trivet.records import BackendError

# Answers are added together: who is woken by every call stands in the way of the next one.
_ADDED_TOGETHER = 16


class _Answered(NamedTuple):
    """What one call answered, and by example the parts that stood in it."""

    parts: Mapping[int, WindowSlice]
    outputs: Outputs | BackendError


class InferenceJob:
    """Layouts of which all windows wait for the engine, or run."""

    def __init__(
        self,
        layouts: Sequence[Layout],
        backend: Backend,
        workers: WorkerPool,
        pad: int,
        limits: BatchLimits,
    ) -> None:
        """Put all calls into the workers.

        Args:
            layouts: One for each example.
            backend: The engine.
            workers: Where it runs.
            pad: The id that fills a window up.
            limits: How full the engine wants its calls.
        """
        self._backend = backend
        self._workers = workers.count
        self._pad = pad
        self._gathered = [WindowAccumulator(layout) for layout in layouts]
        places = [(e, row) for e, layout in enumerate(layouts) for row in range(len(layout.rows))]
        lengths = [len(layouts[e].rows[row]) for e, row in places]
        self._calls: deque[Future[_Answered | None]] = deque()
        # The first call known to have failed, by example; errors are told apart when it is joined.
        self._failed: dict[int, int] = {}
        try:
            calls = pack(lengths, limits)
            self._count = len(calls)
            first_of_rest = len(calls) - _rest(len(calls), workers.count)
            for n, call in enumerate(calls):
                rows_of: dict[int, list[int]] = {}
                for number in call:
                    example, row = places[number]
                    rows_of.setdefault(example, []).append(row)
                run = functools.partial(self._run, n, rows_of, n >= first_of_rest)
                self._calls.append(workers.submit_told(run, owner=self))
        except BaseException:
            self.cancel()
            raise

    def join(self, faithfulness: Reduction) -> list[Outputs | BackendError]:
        """Wait for all calls and join what they answered.

        Args:
            faithfulness: The bundle's reduction from tokens to one number.

        Returns:
            For each layout its outputs, numpy, B = 1 and without padding (an empty segment keeps
            one position); or the error that befell it. An error of one call is that of all its
            examples; of several errors of an example the first counts, in the order of the calls.
        """
        try:
            while self._calls:
                some = list(itertools.islice(self._calls, _ADDED_TOGETHER))
                some[-1].exception()  # waits
                for call in some:
                    if (answered := call.result()) is not None:
                        self._add(answered)
                    self._calls.popleft()
        finally:
            self.cancel()
        return [each.join(faithfulness) for each in self._gathered]

    def cancel(self) -> None:
        """Give up what has not run."""
        for call in self._calls:
            call.cancel()

    def _run(
        self, number: int, rows_of: Mapping[int, Sequence[int]], of_rest: bool, others: int
    ) -> _Answered | None:
        """In a worker: run one call, unless all its examples failed in calls before.

        Else it runs whole: who shares a call may show in the last digits of an int8 engine, and
        must not depend on what came first.

        Args:
            number: Which call it is.
            rows_of: The windows of each example.
            of_rest: Whether it is one of the last, which are too few for the workers.
            others: How many calls of others run or wait.
        """
        if all(self._failed_before(number, example) for example in rows_of):
            return None
        parts = {
            example: self._gathered[example].take(sorted(rows)) for example, rows in rows_of.items()
        }
        try:
            # Those before it are as good as done.
            all_threads = of_rest and are_few(others + self._count - number, self._workers)
            outputs = run_slices(
                list(parts.values()), self._backend, self._pad, all_threads=all_threads
            )
            return _Answered(parts, outputs)
        except BackendError as error:
            for example in rows_of:
                self._failed[example] = min(number, self._failed.get(example, number))
            return _Answered(parts, error)

    def _failed_before(self, number: int, example: int) -> bool:
        """Whether an example failed in a call before this one, as far as is known."""
        known = self._gathered[example].error is not None
        return known or self._failed.get(example, number) < number

    def _add(self, answered: _Answered) -> None:
        for b, (example, part) in enumerate(answered.parts.items()):
            gathering = self._gathered[example]
            if gathering.error is not None:
                continue
            if isinstance(answered.outputs, BackendError):
                gathering.error = answered.outputs
            else:
                gathering.add(part, answered.outputs, b)


def _rest(calls: int, workers: int) -> int:
    """Return how many calls are left for the workers at the end, where these are few."""
    rest = calls % workers
    return rest if are_few(rest, workers) else 0
