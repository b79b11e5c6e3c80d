"""Many layouts, few engine calls: packing windows by length and joining what comes back.

The windows of all examples are sorted by length and packed into calls of a bounded number of
positions. An example whose windows are spread over several calls is put together again with the
functions that the graph itself uses (``model.aggregate``). Who comes first where requests compete
is decided elsewhere (``serve.scheduling.window_queue``).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trivet.backends.backend import POSITIONS, Backend, probabilities, run_call
from trivet.data.segment_tokenizer import FloatArray, IntArray
from trivet.data.windows import Layout, collate, take_windows
from trivet.model.aggregate import Outputs, join, weakest
from trivet.model.architecture import Reduction
from trivet.records import BackendError

# Response tokens that are joined at once; the pool of a block takes at most about 1 MB.
_BLOCK = 512


class BatchLimits(NamedTuple):
    """How full an engine wants its calls.

    Attributes:
        positions: The most positions of one call, padding included; a window that is longer alone
            gets a call of its own.
        step: The engine pads windows to multiples of it.
        most_windows: The most windows of one call, however short they are.
    """

    positions: int = POSITIONS
    step: int = 1
    most_windows: int | None = None

    def padded(self, length: int) -> int:
        """Return the positions that a window of ``length`` tokens takes."""
        return math.ceil(max(1, length) / self.step) * self.step

    def room(self, length: int) -> int:
        """Return how many windows fit in one call of which the longest has ``length`` tokens."""
        room = max(1, self.positions // self.padded(length))
        return room if self.most_windows is None else min(room, self.most_windows)


class WindowSlice(NamedTuple):
    """Some windows of an example, and the numbers of the tokens that they hold."""

    layout: Layout
    response: IntArray
    context: IntArray


class WindowAccumulator:
    """One layout on its way through several engine calls, and what is known of it so far.

    Windows are taken, run by whoever took them, and added; after the last it is joined. ``take``
    may run in one thread while another adds; two must not add at once.

    Attributes:
        layout: The layout.
        error: What befell it; its other windows need not run.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.error: BackendError | None = None
        # Before any window ran, nothing is supported, relevant or utilized.
        tokens = len(layout.context_row)
        self._support: FloatArray = np.zeros(len(layout.response_sentence), np.float32)
        self._relevance: FloatArray = np.zeros(tokens, np.float32)
        self._utilization: FloatArray = np.zeros(tokens, np.float32)

    def take(self, rows: Sequence[int]) -> WindowSlice:
        """Take some windows, with the response tokens that they show.

        The part is one single sentence to the engine: only token probabilities are read from its
        answer, and a pool of all sentences of a very long response would not fit in memory.
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

    def add(self, part: WindowSlice, answer: Outputs, b: int) -> None:
        """Add what row ``b`` of an engine's answer says of a part; keep the error if it is none.

        Args:
            part: The windows that ran.
            answer: The engine's answer to the call.
            b: The part's row in it.
        """
        response, context = len(part.response), len(part.context)
        try:
            support = probabilities(answer.support_probs[b, :response], "support_probs")
            relevance = probabilities(answer.relevance_probs[b, :context], "relevance_probs")
            utilization = probabilities(answer.utilization_probs[b, :context], "utilization_probs")
        except BackendError as error:
            self.error = error
            return
        # As ``supported_anywhere`` reduces copies: a maximum of maxima is the maximum.
        self._support[part.response] = np.maximum(self._support[part.response], support)
        self._relevance[part.context] = relevance
        self._utilization[part.context] = utilization

    def join(self, faithfulness: Reduction) -> Outputs | BackendError:
        """Reduce the token probabilities to the example's scores, or return what befell it.

        A pool of sentences x tokens would grow with the square of a long response, so whole
        sentences are joined block by block; a minimum of minima is the minimum.

        Args:
            faithfulness: The bundle's reduction from tokens to one number.

        Returns:
            Numpy, B = 1 and without padding (an empty segment keeps one position).
        """
        if self.error is not None:
            return self.error
        sentence = self.layout.response_sentence
        blocks = [
            join(
                **_block(self._support[start:stop], sentence[start:stop]),
                relevance_probs=self._relevance[None],
                utilization_probs=self._utilization[None],
                context_weight=self.layout.context_weight[None],
                faithfulness=faithfulness,
            )
            for start, stop in _blocks(sentence)
        ]
        weakest_of_each = np.stack([block.faithfulness for block in blocks], axis=-1)
        return blocks[0]._replace(
            support_probs=self._support[None],
            sentence_support=np.concatenate([block.sentence_support for block in blocks], axis=-1),
            faithfulness=weakest(weakest_of_each, np.ones_like(weakest_of_each, dtype=np.bool_)),
        )


def run_slices(
    parts: Sequence[WindowSlice], backend: Backend, pad: int, *, all_threads: bool = False
) -> Outputs:
    """Run parts of any mix of examples in one call; the answer has a row for each, in order.

    Args:
        parts: What to run.
        backend: The engine.
        pad: The id that fills a window up.
        all_threads: Whether the call may have all threads; see ``run_call``.

    Raises:
        BackendError: The engine failed.
    """
    return run_call(backend, collate([part.layout for part in parts], pad), all_threads=all_threads)


def pack(lengths: Sequence[int], limits: BatchLimits) -> list[list[int]]:
    """Group windows into engine calls.

    Args:
        lengths: Tokens of each window.
        limits: How full the engine wants its calls.

    Returns:
        The numbers of the windows of each call, longest windows first.
    """
    calls: list[list[int]] = []
    room = 0
    for number in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if room < 1:
            calls.append([])
            # Longest first: the first window of a call decides how many fit.
            room = limits.room(lengths[number])
        calls[-1].append(number)
        room -= 1
    return calls


def _blocks(sentence: IntArray) -> list[tuple[int, int]]:
    """Cut response tokens into runs of whole sentences, about ``_BLOCK`` each; at least one."""
    blocks, start = [], 0
    for end in np.flatnonzero(np.diff(sentence)) + 1:
        if end - start >= _BLOCK:
            blocks.append((start, int(end)))
            start = int(end)
    return [*blocks, (start, len(sentence))]


def _block(support: FloatArray, sentence: IntArray) -> dict[str, npt.NDArray[Any]]:
    """Return a run of whole sentences as ``join`` takes it; an empty one as one of padding."""
    tokens = max(1, len(support))
    padded = np.zeros((1, tokens), dtype=np.float32)
    padded[0, : len(support)] = support
    numbers = sentence - sentence[:1]
    counts = np.bincount(numbers, minlength=1)
    pool = np.zeros((1, len(counts), tokens), dtype=np.float32)
    pool[0, numbers, np.arange(len(support))] = 1.0 / counts[numbers]
    return {
        "support_probs": padded,
        "response_mask": np.arange(tokens)[None] < len(support),
        "sentence_pool": pool,
    }
