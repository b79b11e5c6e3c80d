"""Many layouts, few engine calls: packing windows by length and joining what comes back.

The windows of all examples are sorted by length and packed into calls of a bounded number of
positions. An example whose windows are spread over several calls is put together again with the
functions that the graph itself uses (``model.aggregate``).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trivet.data.tokens import FloatArray, IntArray
from trivet.data.windows import Layout, collate, take_windows
from trivet.model.aggregate import Outputs, Reduction, join, supported_anywhere, weakest
from trivet.records import EngineError
from trivet.serve.backend import Backend, probabilities

# A CPU is fastest with one or two windows of 512 at a time.
POSITIONS = 1024
# Response tokens that are joined at once; the pool of a block takes at most about 1 MB.
_BLOCK = 512


@dataclass
class _TokenProbs:
    """What is known so far of one example; each call adds the windows it ran.

    Attributes:
        support: *Shape:* [R].
        relevance: *Shape:* [C].
        utilization: *Shape:* [C].
    """

    support: FloatArray
    relevance: FloatArray
    utilization: FloatArray


class _Part(NamedTuple):
    """Some windows of an example, and the numbers of the tokens that they hold."""

    layout: Layout
    response: IntArray
    context: IntArray


def pack(
    lengths: Sequence[int],
    positions: int = POSITIONS,
    step: int = 1,
    most_windows: int | None = None,
) -> list[list[int]]:
    """Group windows into engine calls.

    Args:
        lengths: Tokens of each window.
        positions: The most positions of one call, padding included; a window that is longer alone
            gets a call of its own.
        step: The engine pads windows to multiples of it.
        most_windows: The most windows of one call, however short they are.

    Returns:
        The numbers of the windows of each call, longest windows first.
    """
    calls: list[list[int]] = []
    room = 0
    for number in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if room < 1:
            calls.append([])
            # Longest first: the first window of a call decides how many fit.
            padded = math.ceil(max(1, lengths[number]) / step) * step
            room = min(max(1, positions // padded), most_windows or len(lengths))
        calls[-1].append(number)
        room -= 1
    return calls


def run_layouts(
    layouts: Sequence[Layout],
    backend: Backend,
    pad: int,
    faithfulness: Reduction,
    positions: int = POSITIONS,
    step: int = 1,
    most_windows: int | None = None,
) -> list[Outputs | EngineError]:
    """Run every window of every layout.

    Args:
        layouts: One for each example.
        backend: The engine.
        pad: The id that fills a window up.
        faithfulness: The bundle's reduction from tokens to one number.
        positions: The most positions of one call.
        step: As in ``pack``.
        most_windows: As in ``pack``.

    Returns:
        For each layout its outputs, numpy, B = 1 and without padding (an empty segment keeps one
        position); or the error that befell it. An error of one call is that of all its examples.
    """
    places = [(e, row) for e, layout in enumerate(layouts) for row in range(len(layout.rows))]
    gathered = [_nothing_yet(layout) for layout in layouts]
    failed: dict[int, EngineError] = {}
    lengths = [len(layouts[e].rows[row]) for e, row in places]
    for call in pack(lengths, positions, step, most_windows):
        rows_of: dict[int, list[int]] = {}
        for number in call:
            example, row = places[number]
            if example not in failed:
                rows_of.setdefault(example, []).append(row)
        if rows_of:
            failed |= _run_call(layouts, rows_of, backend, pad, gathered)
    return [
        failed.get(e) or _join(layout, gathered[e], faithfulness)
        for e, layout in enumerate(layouts)
    ]


def _run_call(
    layouts: Sequence[Layout],
    rows_of: Mapping[int, Sequence[int]],
    backend: Backend,
    pad: int,
    gathered: Sequence[_TokenProbs],
) -> dict[int, EngineError]:
    """Run some windows of some examples in one call; add to ``gathered``, return who failed."""
    parts = [_take_part(layouts[e], sorted(rows)) for e, rows in rows_of.items()]
    try:
        answer = backend.run(collate([part.layout for part in parts], pad))
    except EngineError as error:
        return dict.fromkeys(rows_of, error)
    failed = {}
    for b, (e, part) in enumerate(zip(rows_of, parts, strict=True)):
        try:
            _add(gathered[e], part, answer, b)
        except EngineError as error:
            failed[e] = error
    return failed


def _nothing_yet(layout: Layout) -> _TokenProbs:
    """Return the state before any window ran: nothing is supported, relevant or utilized."""
    response, context = len(layout.response_sentence), len(layout.context_row)
    return _TokenProbs(
        np.zeros(response, np.float32), np.zeros(context, np.float32), np.zeros(context, np.float32)
    )


def _take_part(layout: Layout, rows: Sequence[int]) -> _Part:
    """Take some windows of an example, with the response tokens that they show.

    The part is one single sentence to the engine: only token probabilities are read from its
    answer, and a pool of all sentences of a very long response would not fit in memory.
    """
    part, context = take_windows(layout, rows)
    response = np.flatnonzero((part.response_row >= 0).any(axis=1))
    shown = dataclasses.replace(
        part,
        response_row=part.response_row[response],
        response_column=part.response_column[response],
        response_sentence=np.zeros(len(response), dtype=np.int64),
        sentences=1,
    )
    return _Part(shown, response, context)


def _add(so_far: _TokenProbs, part: _Part, answer: Outputs, b: int) -> None:
    """Add what row ``b`` of an engine's answer says of a part of an example.

    Args:
        so_far: The example; changed in place.
        part: The windows that ran.
        answer: The engine's answer to the call.
        b: The example's row in it.

    Raises:
        EngineError: A value is no probability.
    """
    response, context = len(part.response), len(part.context)
    support = probabilities(answer.support_probs[b, :response], "support_probs")
    relevance = probabilities(answer.relevance_probs[b, :context], "relevance_probs")
    utilization = probabilities(answer.utilization_probs[b, :context], "utilization_probs")
    # What was known and what came are two copies of each token, reduced as in the graph.
    copies = np.arange(2 * response).reshape(1, 2, response).swapaxes(1, 2)
    known = np.concatenate([so_far.support[part.response], support])
    if response:
        so_far.support[part.response] = supported_anywhere(known, copies)[0]
    so_far.relevance[part.context] = relevance
    so_far.utilization[part.context] = utilization


def _join(layout: Layout, known: _TokenProbs, faithfulness: Reduction) -> Outputs:
    """Reduce one example's token probabilities to its scores.

    A pool of sentences x tokens would grow with the square of a long response, so whole sentences
    are joined block by block; a minimum of minima is the minimum.
    """
    blocks = [
        join(
            **_block(known.support[start:stop], layout.response_sentence[start:stop]),
            relevance_probs=known.relevance[None],
            utilization_probs=known.utilization[None],
            context_weight=layout.context_weight[None],
            faithfulness=faithfulness,
        )
        for start, stop in _blocks(layout.response_sentence)
    ]
    weakest_of_each = np.stack([block.faithfulness for block in blocks], axis=-1)
    return blocks[0]._replace(
        support_probs=known.support[None],
        sentence_support=np.concatenate([block.sentence_support for block in blocks], axis=-1),
        faithfulness=weakest(weakest_of_each, np.ones_like(weakest_of_each, dtype=np.bool_)),
    )


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
