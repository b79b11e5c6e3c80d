"""The only place in the house where long inputs are cut: ``lay_out`` and ``collate``.

Luna (arXiv 2406.00975), eq. 1: a window shows a slice of the contexts, the question and the
response: ``[CLS] slice [SEP] question [SEP] response [SEP]``, with a ``[SEP]`` between passages
that share a slice. Torch-free; training turns the arrays into tensors at its own edge.

Letters: N windows, L positions in a window, B examples, R response tokens, C context tokens,
K windows that show one response token, S response sentences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from trivet.data.lexical_overlap import count_overlaps
from trivet.data.segment_tokenizer import FloatArray, IntArray, SpecialTokens
from trivet.data.tokenization import TokenizedExample
from trivet.records import WindowError

# numpy.ndarray or torch.Tensor: a batch keeps its names when it becomes tensors.
Array = Any

FRAME = 4  # [CLS] ... [SEP] question [SEP] response [SEP]
QUESTION_SHARE = 4  # a question may fill one fourth of a window
RESPONSE_SHARE = 2  # a response may fill one half of a window; a longer one is read in chunks
# Attention reaches less of a machine's peak than dense products: a longer window must be cheaper by
# this much on paper to be so in seconds.
SLACK = 1.1
TAIL_SHARE = 4  # a cut is moved to a sentence end that lies in the last fourth


class Plan(NamedTuple):
    """What cutting an example for one window length comes to, but for where its sentences end.

    Attributes:
        size: The length.
        windows: How many windows there are.
        cut: Tokens of the question that do not fit.
        work: What an encoder computes on the windows, in positions; only ratios mean anything.
    """

    size: int
    windows: int
    cut: int
    work: float


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """How long inputs are cut. Part of the weights: a model reads as it was trained to read.

    Attributes:
        size: Most positions in a window, at least 32.
        overlap: Context tokens that a slice repeats from the one before.
        sizes: The lengths that each example may choose from, rising, the last of them ``size``;
            empty where ``size`` is the only one.
        break_even: Positions at which a window's attention costs as much as its dense products;
            what the choice needs to know of the encoder (``model.trunk.break_even``).
    """

    size: int = 512
    overlap: int = 0
    sizes: tuple[int, ...] = ()
    break_even: int | None = None

    def __post_init__(self) -> None:
        if self.sizes and (sorted({*self.sizes, self.size}) != list(self.sizes)):
            raise WindowError(
                f"window.sizes ({', '.join(map(str, self.sizes))}) must rise, and the last must be "
                f"window.size ({self.size})"
            )
        if self.sizes and (self.break_even or 0) < 1:
            raise WindowError(
                f"window.break_even ({self.break_even}) must be at least 1: without it no length "
                "can be chosen among window.sizes"
            )
        least = min(self.sizes, default=self.size)
        if least < 32:
            raise WindowError(f"window.size ({least} tokens) must be at least 32")
        # The smallest room that question and response can leave.
        room = least - least // QUESTION_SHARE - least // RESPONSE_SHARE - FRAME
        if not 0 <= self.overlap < room // 4 + 1:
            raise WindowError(
                f"window.overlap ({self.overlap} tokens) must be between 0 and {room // 4}: a long "
                f"question and response leave {room} of {least} positions for context; "
                "lower window.overlap or raise window.size"
            )

    def plan(self, read: TokenizedExample) -> Plan:
        """Choose the length for an example: it cuts least of the question, and then costs least.

        Every window repeats the question and the response, so short ones compute them often; in
        long ones attention, which grows with the square of the length, weighs more. The shortest
        length is taken that costs at most a tenth more than the cheapest.
        """
        plans = [self._plan(size, read) for size in self.sizes or (self.size,)]
        cut = min(plan.cut for plan in plans)
        least = min(plan.work for plan in plans if plan.cut == cut)
        return next(plan for plan in plans if plan.cut == cut and plan.work <= SLACK * least)

    def _plan(self, size: int, read: TokenizedExample) -> Plan:
        question = min(len(read.question), size // QUESTION_SHARE)
        chunks = [stop - start for start, stop in _chunks(read, size)]
        room = size - question - max(chunks) - FRAME
        # The first slice fills the room; each further one adds what it does not repeat.
        slices = max(1, math.ceil((len(read.context) - self.overlap) / (room - self.overlap)))
        rest = len(read.context) - (slices - 1) * (room - self.overlap)
        even = self.break_even or 1
        work = 0.0
        for chunk in chunks:
            full, last = (shown + question + chunk + FRAME for shown in (room, rest))
            work += (slices - 1) * full * (full / even + 1) + last * (last / even + 1)
        return Plan(size, len(chunks) * slices, len(read.question) - question, work)


@dataclass(frozen=True, slots=True)
class Layout:
    """One example as rows of ids, with maps from its tokens to their places in the rows.

    Attributes:
        window_size: The length it is cut for.
        rows: Token ids of each window, none longer than that.
        segments: 0 for context and question, 1 for the response. Same lengths as ``rows``.
        response_row: Row of the k-th copy of each response token, -1 for none. *Shape:* [R, K].
        response_column: Its column, likewise.
        context_row: Row of the one copy of each context token that counts. *Shape:* [C].
        context_column: Its column.
        context_weight: 1 / (sentences x tokens in the token's sentence). *Shape:* [C].
        question_overlap: How far the token's sentence overlaps with the question. *Shape:* [C].
        response_overlap: Likewise with the response. *Shape:* [C].
        context_overlap: How far a response token's sentence does with the contexts. *Shape:* [R].
        response_sentence: Sentence of each response token. *Shape:* [R].
        sentences: Number of response sentences, S.
        row_context: First and one-past-last context token that each row shows. *Shape:* [rows, 2].
        cut_question_tokens: Tokens of the question that did not fit.
        response_chunks: In how many chunks the response is read.
    """

    window_size: int
    rows: tuple[IntArray, ...]
    segments: tuple[IntArray, ...]
    response_row: IntArray
    response_column: IntArray
    context_row: IntArray
    context_column: IntArray
    context_weight: FloatArray
    question_overlap: FloatArray
    response_overlap: FloatArray
    context_overlap: FloatArray
    response_sentence: IntArray
    sentences: int
    row_context: IntArray
    cut_question_tokens: int
    response_chunks: int


class Windows(NamedTuple):
    """The model's and the engine's inputs; the field names are the ONNX input names.

    Attributes:
        input_ids: Token ids. *Shape:* [N, L] int64.
        attention_mask: 1 where real. *Shape:* [N, L] int64.
        segment_ids: 0 context and question, 1 response. *Shape:* [N, L] int64.
        response_at: Flat position n * L + l of the k-th copy of response token r, -1 for none.
            *Shape:* [B, R, K] int64.
        context_at: Flat position of the one copy of context token c that counts, -1 on padding.
            *Shape:* [B, C] int64.
        context_weight: Sums to 1 over an example's context tokens, 0 on padding.
            *Shape:* [B, C] float32.
        question_overlap: In [0, 1]: how many words the token's sentence shares with the question,
            beside other sentences (``data.lexical_overlap``); 0 on padding. *Shape:* [B, C] float32.
        response_overlap: Likewise with the response. *Shape:* [B, C] float32.
        context_overlap: Likewise of a response token's sentence with the contexts.
            *Shape:* [B, R] float32.
        sentence_pool: Row s averages the tokens of response sentence s; zero rows are padding.
            *Shape:* [B, S, R] float32.
    """

    input_ids: Array
    attention_mask: Array
    segment_ids: Array
    response_at: Array
    context_at: Array
    context_weight: Array
    question_overlap: Array
    response_overlap: Array
    context_overlap: Array
    sentence_pool: Array


def lay_out(read: TokenizedExample, settings: WindowSettings, special: SpecialTokens) -> Layout:
    """Cut one example into windows.

    A question over a fourth of the window is cut, and ``cut_question_tokens`` says so. A response
    over half of it is read in chunks, and each chunk meets every slice of the contexts.
    """
    size = settings.plan(read).size
    question = read.question.ids[: size // QUESTION_SHARE]
    chunks = _chunks(read, size)
    longest = max(stop - start for start, stop in chunks)
    room = size - len(question) - longest - FRAME
    # Place of each context token in an endless row that has one separator between passages.
    passage_ends = np.concatenate([[0], np.cumsum(np.diff(read.context_index) != 0)])
    place = np.arange(len(read.context)) + passage_ends[: len(read.context)]
    slices = _cut(read.context_sentence, place, room, settings.overlap)

    rows: list[IntArray] = []
    segments: list[IntArray] = []
    row_context: list[tuple[int, int]] = []
    response_row = np.full((len(read.response), len(slices)), -1, dtype=np.int64)
    response_column = response_row.copy()
    context_row = np.full(len(read.context), -1, dtype=np.int64)
    context_column = context_row.copy()
    nearest = np.full(len(read.context), np.inf)
    for number, (start, stop) in enumerate(slices):
        columns = 1 + place[start:stop] - (place[start] if stop > start else 0)
        width = int(columns[-1]) + 1 if stop > start else 1
        head = np.full(width, special.sep, dtype=np.int64)
        head[0] = special.cls
        head[columns] = read.context.ids[start:stop]
        # An overlapped token counts where it stands nearer the middle of its slice.
        distance = np.abs(np.arange(start, stop) - (start + stop - 1) / 2)
        owned = np.flatnonzero(distance < nearest[start:stop])
        nearest[start + owned] = distance[owned]
        context_row[start + owned] = len(rows)
        context_column[start + owned] = columns[owned]
        for first, last in chunks:
            reads = read.response.ids[first:last]
            row = np.concatenate(
                [head, [special.sep], question, [special.sep], reads, [special.sep]]
            )
            begin = width + len(question) + 2
            response_row[first:last, number] = len(rows)
            response_column[first:last, number] = np.arange(begin, begin + len(reads))
            rows.append(row)
            segments.append((np.arange(len(row)) >= begin).astype(np.int64))
            row_context.append((start, stop))
    overlaps = count_overlaps(read)
    return Layout(
        window_size=size,
        rows=tuple(rows),
        segments=tuple(segments),
        response_row=response_row,
        response_column=response_column,
        context_row=context_row,
        context_column=context_column,
        context_weight=_sentence_weights(read.context_sentence),
        question_overlap=overlaps.question,
        response_overlap=overlaps.response,
        context_overlap=overlaps.context,
        response_sentence=read.response_sentence,
        sentences=len(read.response_sentence_spans),
        row_context=np.asarray(row_context, dtype=np.int64).reshape(-1, 2),
        cut_question_tokens=len(read.question) - len(question),
        response_chunks=len(chunks),
    )


def _chunks(read: TokenizedExample, size: int) -> list[tuple[int, int]]:
    """Cut the response into pieces that fill at most half of a window; at least one piece."""
    places = np.arange(len(read.response))
    return _cut(read.response_sentence, places, size // RESPONSE_SHARE, 0)


def _cut(sentence: IntArray, place: IntArray, room: int, overlap: int) -> list[tuple[int, int]]:
    """Cut T tokens into pieces that fill at most ``room`` places; at least one piece.

    A piece ends at a sentence end where one lies in its last fourth, else where it must.
    """
    total = len(sentence)
    ends = np.flatnonzero(np.diff(sentence) != 0) + 1  # one past the last token of each sentence
    pieces, start = [], 0
    while True:
        stop = int(np.searchsorted(place, place[start] + room)) if total else 0
        if stop >= total:
            pieces.append((start, total))
            return pieces
        least = int(np.searchsorted(place, place[start] + room - room // TAIL_SHARE))
        candidates = ends[
            np.searchsorted(ends, max(least, start + 1)) : np.searchsorted(ends, stop, "right")
        ]
        stop = int(candidates[-1]) if len(candidates) else stop
        pieces.append((start, stop))
        start = max(stop - overlap, start + 1)


def _sentence_weights(sentence: IntArray) -> FloatArray:
    """Give every sentence the same weight, shared equally by its tokens; the sum is 1."""
    if not len(sentence):
        return np.zeros(0, dtype=np.float32)
    lengths = np.bincount(sentence)
    return (1.0 / (np.count_nonzero(lengths) * lengths[sentence])).astype(np.float32)


def collate(layouts: Sequence[Layout], pad: int) -> Windows:
    """Pad and stack any mix of examples. Every dimension is at least 1, whatever is missing."""
    widths = [len(row) for layout in layouts for row in layout.rows]
    height, width = len(widths), max(widths)
    examples = len(layouts)
    tokens = max(1, *(len(layout.response_row) for layout in layouts))
    copies = max(1, *(layout.response_row.shape[1] for layout in layouts))
    contexts = max(1, *(len(layout.context_row) for layout in layouts))
    sentences = max(1, *(layout.sentences for layout in layouts))
    windows = Windows(
        input_ids=np.full((height, width), pad, dtype=np.int64),
        attention_mask=np.zeros((height, width), dtype=np.int64),
        segment_ids=np.zeros((height, width), dtype=np.int64),
        response_at=np.full((examples, tokens, copies), -1, dtype=np.int64),
        context_at=np.full((examples, contexts), -1, dtype=np.int64),
        context_weight=np.zeros((examples, contexts), dtype=np.float32),
        question_overlap=np.zeros((examples, contexts), dtype=np.float32),
        response_overlap=np.zeros((examples, contexts), dtype=np.float32),
        context_overlap=np.zeros((examples, tokens), dtype=np.float32),
        sentence_pool=np.zeros((examples, sentences, tokens), dtype=np.float32),
    )
    first = 0
    for b, layout in enumerate(layouts):
        for n, (row, segment) in enumerate(zip(layout.rows, layout.segments, strict=True), first):
            windows.input_ids[n, : len(row)] = row
            windows.attention_mask[n, : len(row)] = 1
            windows.segment_ids[n, : len(row)] = segment
        length, shown = layout.response_row.shape
        windows.response_at[b, :length, :shown] = np.where(
            layout.response_row < 0,
            -1,
            (first + layout.response_row) * width + layout.response_column,
        )
        held = len(layout.context_row)
        windows.context_at[b, :held] = (first + layout.context_row) * width + layout.context_column
        windows.context_weight[b, :held] = layout.context_weight
        windows.question_overlap[b, :held] = layout.question_overlap
        windows.response_overlap[b, :held] = layout.response_overlap
        windows.context_overlap[b, :length] = layout.context_overlap
        if length:
            counts = np.bincount(layout.response_sentence, minlength=layout.sentences)
            windows.sentence_pool[b, layout.response_sentence, np.arange(length)] = (
                1.0 / counts[layout.response_sentence]
            )
        first += len(layout.rows)
    return windows


def take_windows(layout: Layout, rows: Sequence[int]) -> tuple[Layout, IntArray]:
    """Return the part of a layout that stands in some of its rows, as a layout of its own.

    For examples with more windows than an engine takes in one call. The response tokens stay all,
    with the copies that the rows show; the context tokens are those whose counting copy is there,
    and their numbers are returned beside the part. *Shape of the numbers:* [part's C].
    """
    chosen = np.asarray(rows, dtype=np.int64)
    renumber = np.full(len(layout.rows) + 1, -1, dtype=np.int64)  # the last entry serves row -1
    renumber[chosen] = np.arange(len(chosen))
    response_row = renumber[layout.response_row]
    shown = np.flatnonzero((response_row >= 0).any(axis=0))
    # No row holds what it does not show.
    first, last = layout.row_context[chosen, 0].min(), layout.row_context[chosen, 1].max()
    held = first + np.flatnonzero(renumber[layout.context_row[first:last]] >= 0)
    return (
        Layout(
            window_size=layout.window_size,
            rows=tuple(layout.rows[row] for row in chosen),
            segments=tuple(layout.segments[row] for row in chosen),
            response_row=response_row[:, shown],
            response_column=layout.response_column[:, shown],
            context_row=renumber[layout.context_row[held]],
            context_column=layout.context_column[held],
            context_weight=layout.context_weight[held],
            question_overlap=layout.question_overlap[held],
            response_overlap=layout.response_overlap[held],
            context_overlap=layout.context_overlap,
            response_sentence=layout.response_sentence,
            sentences=layout.sentences,
            row_context=layout.row_context[chosen],
            cut_question_tokens=layout.cut_question_tokens,
            response_chunks=layout.response_chunks,
        ),
        held,
    )
