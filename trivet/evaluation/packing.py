"""Packing windows of many examples into backend calls, and joining what the calls answer.

Every caller that runs layouts uses these steps: ``InferenceJob``, the server and Triton. Which
requests go first when several compete is decided in ``serve.scheduling``.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trivet.backends.backend import POSITIONS, AllThreadsBackend, Backend
from trivet.data.tokenization import FloatArray, IntArray
from trivet.data.windows import Layout, Windows, collate, take_windows
from trivet.model.aggregate import Outputs, join, weakest
from trivet.model.architecture import Reduction
from trivet.records import BackendError

# Response tokens that are joined at once; the sentence pool of a block takes about 1 MB at most.
_BLOCK = 512
# Rounding may exceed [0, 1] by this much; anything further is a broken backend.
_ROUNDING = 1e-3


class BatchLimits(NamedTuple):
    """Capacity of one call of a backend, in windows and in positions, padding included."""

    positions: int = POSITIONS  # a single longer window still gets a call
    step: int = 1  # windows are padded to a multiple of this many positions
    most_windows: int | None = None  # however short they are

    def padded(self, length: int) -> int:
        """Return the positions that a window of ``length`` tokens takes."""
        return math.ceil(max(1, length) / self.step) * self.step

    def room(self, length: int) -> int:
        """Return how many windows fit in a call whose longest window has ``length`` tokens."""
        room = max(1, self.positions // self.padded(length))
        return room if self.most_windows is None else min(room, self.most_windows)


class WindowSlice(NamedTuple):
    """Some windows of an example, laid out alone."""

    layout: Layout
    response: IntArray  # numbers of the response tokens that they show
    context: IntArray  # numbers of the context tokens whose counting copy they hold


class WindowAccumulator:
    """Token probabilities of one example, collected over several backend calls. Thread-safe.

    Attributes:
        layout: Layout of the example.
        error: First error of a call with its windows; the other windows need not run.
        failed_call: Number of the first call known to have failed; infinite without one.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.error: BackendError | None = None
        self.failed_call = math.inf
        self._lock = threading.Lock()
        # Before any window ran, nothing is supported, relevant or utilized.
        tokens = len(layout.context_row)
        self._support: FloatArray = np.zeros(len(layout.response_sentence), np.float32)
        self._relevance: FloatArray = np.zeros(tokens, np.float32)
        self._utilization: FloatArray = np.zeros(tokens, np.float32)

    def take(self, rows: Sequence[int]) -> WindowSlice:
        """Return some windows with the response tokens that they show.

        The slice has one single sentence: only token probabilities are read from the answer, and a
        pool of all sentences of a very long response would not fit in memory.
        """
        part, context = take_windows(self.layout, rows)
        response = np.flatnonzero((part.response_row >= 0).any(axis=1))
        shown = dataclasses.replace(
            part,
            response_row=part.response_row[response],
            response_column=part.response_column[response],
            context_overlap=part.context_overlap[response],
            response_sentence=np.zeros(len(response), dtype=np.int64),
            sentences=1,
        )
        return WindowSlice(shown, response, context)

    def fail(self, error: BackendError) -> None:
        """Keep the error of a call; only the first one counts."""
        with self._lock:
            self.error = self.error or error

    def add(self, part: WindowSlice, answer: Outputs, b: int) -> None:
        """Add row ``b`` of an answer, for the windows of a slice; nothing after an error."""
        with self._lock:
            if self.error is not None:
                return
            r, c = len(part.response), len(part.context)
            try:
                support = probabilities(answer.support_probs[b, :r], "support_probs")
                relevance = probabilities(answer.relevance_probs[b, :c], "relevance_probs")
                utilization = probabilities(answer.utilization_probs[b, :c], "utilization_probs")
            except BackendError as error:
                self.error = error
                return
            # As ``supported_anywhere`` reduces copies: a maximum of maxima is the maximum.
            self._support[part.response] = np.maximum(self._support[part.response], support)
            self._relevance[part.context] = relevance
            self._utilization[part.context] = utilization

    def join(self, faithfulness: Reduction) -> Outputs:
        """Reduce the token probabilities to scores: B = 1, at least one position a segment.

        A pool of sentences x tokens would grow with the square of a long response, so whole
        sentences are joined block by block; a minimum of minima is the minimum.

        Raises:
            BackendError: A call with windows of the example failed.
        """
        if self.error is not None:
            raise self.error
        blocks = [
            join(
                **block,
                relevance_probs=self._relevance[None],
                utilization_probs=self._utilization[None],
                context_weight=self.layout.context_weight[None],
                faithfulness=faithfulness,
            )
            for block in _blocks(self._support, self.layout.response_sentence)
        ]
        weakest_of_each = np.stack([block.faithfulness for block in blocks], axis=-1)
        return blocks[0]._replace(
            support_probs=self._support[None],
            sentence_support=np.concatenate([block.sentence_support for block in blocks], axis=-1),
            faithfulness=weakest(weakest_of_each, np.ones_like(weakest_of_each, dtype=np.bool_)),
        )


class BackendCall:
    """Windows of some examples that run together: first ``run``, then ``add``.

    Attributes:
        number: Position among the calls of a job.
        answer: Answer of the backend, or its error; ``None`` before the call and if it is skipped.
    """

    def __init__(self, windows: Iterable[tuple[WindowAccumulator, int]], number: int = 0) -> None:
        """Group windows, which are numbered in their example, by example."""
        self.number = number
        self.answer: Outputs | BackendError | None = None
        self._slices: list[WindowSlice] = []
        self._rows: dict[WindowAccumulator, list[int]] = {}
        for example, row in windows:
            self._rows.setdefault(example, []).append(row)

    def is_needed(self) -> bool:
        """Return whether an example has not failed in an earlier call.

        Such a call runs whole: the last digits of an int8 backend depend on all windows of a call,
        and must not depend on which calls came first.
        """
        return any(each.error is None and each.failed_call >= self.number for each in self._rows)

    def collate(self, pad: int) -> Windows:
        """Return the windows as the backend takes them; ``pad`` is the token id of padding."""
        self._slices = [example.take(sorted(rows)) for example, rows in self._rows.items()]
        return collate([part.layout for part in self._slices], pad)

    def run(self, backend: Backend, pad: int, at_once: int) -> None:
        """Run the backend once and keep its answer or its error.

        It gets all threads if the calls that run at the same time, this one included (``at_once``),
        leave half of the backend's workers idle.
        """
        run = backend.run
        if isinstance(backend, AllThreadsBackend) and 2 * at_once <= backend.workers:
            run = backend.run_all_threads
        windows = self.collate(pad)
        try:
            self.answer = run(windows)
        except BackendError as error:
            self.answer = error
            for example in self._rows:
                example.failed_call = min(self.number, example.failed_call)

    def add(self) -> None:
        """Add the answer, or the error, to every example of the call."""
        if isinstance(self.answer, BackendError):
            for example in self._rows:
                example.fail(self.answer)
        elif self.answer is not None:
            for b, (example, part) in enumerate(zip(self._rows, self._slices, strict=True)):
                example.add(part, self.answer, b)


def pack(lengths: Sequence[int], limits: BatchLimits) -> list[list[int]]:
    """Group windows of some lengths into calls; return their numbers, longest windows first."""
    calls: list[list[int]] = []
    room = 0
    for number in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if room < 1:
            calls.append([])
            # Longest first: the first window of a call decides how many fit.
            room = limits.room(lengths[number])
        calls[-1].append(number)
        room -= 1
    return calls


def pack_calls(examples: Sequence[WindowAccumulator], limits: BatchLimits) -> list[BackendCall]:
    """Group all windows of some examples into calls; arguments as in ``pack``."""
    windows = [(each, row) for each in examples for row in range(len(each.layout.rows))]
    calls = pack([len(each.layout.rows[row]) for each, row in windows], limits)
    return [BackendCall([windows[n] for n in call], number) for number, call in enumerate(calls)]


def probabilities(values: npt.ArrayLike, name: str) -> FloatArray:
    """Return values of a field of ``Outputs``, of any shape, as float32 in [0, 1].

    Raises:
        BackendError: A value is not finite (the code is ``non_finite``), or lies outside [0, 1] by
            more than rounding.
    """
    array = np.asarray(values, dtype=np.float32)
    usable = np.isfinite(array) & (array >= -_ROUNDING) & (array <= 1 + _ROUNDING)
    if not usable.all():
        culprit = array[~usable].flat[0]
        raise BackendError(
            f"the backend answered {name} = {culprit} ({int((~usable).sum())} of {array.size} "
            "values are no probability); the model or its backend is broken, export the bundle "
            "again",
            code="backend_failed" if np.isfinite(array).all() else "non_finite",
        )
    return np.clip(array, 0.0, 1.0)


def _blocks(support: FloatArray, sentence: IntArray) -> Iterator[dict[str, npt.NDArray[Any]]]:
    """Cut response tokens into blocks of whole sentences, as ``join`` takes them; at least one."""
    cuts = [0]
    for end in np.flatnonzero(np.diff(sentence)) + 1:
        if end - cuts[-1] >= _BLOCK:
            cuts.append(int(end))
    for start, stop in zip(cuts, [*cuts[1:], len(sentence)], strict=True):
        real = stop - start
        tokens = max(1, real)  # a block without tokens has one of padding
        padded = np.zeros((1, tokens), dtype=np.float32)
        padded[0, :real] = support[start:stop]
        numbers = sentence[start:stop] - sentence[start : start + 1]
        counts = np.bincount(numbers, minlength=1)
        pool = np.zeros((1, len(counts), tokens), dtype=np.float32)
        pool[0, numbers, np.arange(real)] = 1.0 / counts[numbers]
        yield {
            "support_probs": padded,
            "response_mask": np.arange(tokens)[None] < real,
            "sentence_pool": pool,
        }
