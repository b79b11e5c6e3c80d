"""Many layouts on their way through the engine, while who asked does other work."""

from __future__ import annotations

import concurrent.futures
import functools
import itertools
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from trivet.data.windows import Layout
from trivet.model.aggregate import Outputs, Reduction
from trivet.records import EngineError
from trivet.serve.backend import Backend
from trivet.serve.engine_calls import Filling, Gathering, Part, pack, run_parts
from trivet.serve.lanes import Lanes

# Answers are added together: who is woken by every call stands in the way of the next one.
_ADDED_TOGETHER = 16


class _Answered(NamedTuple):
    """What one call answered, and by example the parts that stood in it."""

    parts: Mapping[int, Part]
    outputs: Outputs | EngineError


class RunningLayouts:
    """Layouts of which all windows wait for the engine, or run."""

    def __init__(
        self,
        layouts: Sequence[Layout],
        backend: Backend,
        lanes: Lanes,
        pad: int,
        filling: Filling,
    ) -> None:
        """Put all calls into the lanes.

        Args:
            layouts: One for each example.
            backend: The engine.
            lanes: Where it runs.
            pad: The id that fills a window up.
            filling: How full the engine wants its calls.
        """
        self._backend = backend
        self._lanes = lanes
        self._pad = pad
        self._gathered = [Gathering(layout) for layout in layouts]
        places = [(e, row) for e, layout in enumerate(layouts) for row in range(len(layout.rows))]
        lengths = [len(layouts[e].rows[row]) for e, row in places]
        self._calls: deque[Future[_Answered | None]] = deque()
        try:
            calls = pack(lengths, filling)
            rest = _rest(len(calls), lanes.count)
            for n, call in enumerate(calls):
                rows_of: dict[int, list[int]] = {}
                for number in call:
                    example, row = places[number]
                    rows_of.setdefault(example, []).append(row)
                last_few = rest if len(calls) - n <= rest else 0
                self._calls.append(lanes.submit(functools.partial(self._run, rows_of, last_few)))
        except BaseException:
            self.cancel()
            raise

    def join(self, faithfulness: Reduction) -> list[Outputs | EngineError]:
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
                concurrent.futures.wait(some)
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

    def _run(self, rows_of: Mapping[int, Sequence[int]], last_few: int) -> _Answered | None:
        """In a lane: run one call, unless all its examples have failed.

        Else it runs whole: who shares a call may show in the last digits of an int8 engine, and
        must not depend on what came first.

        Args:
            rows_of: The windows of each example.
            last_few: How many calls leave lanes idle, this one among them; 0 if it does not.
        """
        if all(self._gathered[example].error is not None for example in rows_of):
            return None
        parts = {
            example: self._gathered[example].take(sorted(rows)) for example, rows in rows_of.items()
        }
        try:
            alone = self._lanes.waiting < last_few
            return _Answered(
                parts, run_parts(list(parts.values()), self._backend, self._pad, alone=alone)
            )
        except EngineError as error:
            return _Answered(parts, error)

    def _add(self, answered: _Answered) -> None:
        for b, (example, part) in enumerate(answered.parts.items()):
            gathering = self._gathered[example]
            if gathering.error is not None:
                continue
            if isinstance(answered.outputs, EngineError):
                gathering.error = answered.outputs
            else:
                gathering.add(part, answered.outputs, b)


def _rest(calls: int, lanes: int) -> int:
    """Return how many of the last calls are too few to keep half of the lanes busy."""
    rest = calls % lanes
    return rest if 2 * rest <= lanes else 0
