"""Cut examples into windows (``lay_out``). The only file that cuts.

Luna (arXiv 2406.00975), eq. 1: a window shows a slice of the contexts, the question and the
response: ``[CLS] slice [SEP] question [SEP] response [SEP]``, with a ``[SEP]`` between passages
that share a slice, unless the bundle has the other layout (``data.window_layout``). Does not import
torch; training turns the arrays into tensors.

Letters: N windows, L positions in a window, B examples, R response tokens, C context tokens,
K windows that show one response token, S response sentences.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from trivet.data.claims import SentenceRole, sentence_roles
from trivet.data.evidence import EvidenceWindow, choose_evidence, runs_of
from trivet.data.lexical_overlap import count_overlaps, rank_contexts
from trivet.data.sentence_features import (
    NEAR_SENTENCES,
    NO_CONTEXTS,
    ContextValues,
    FoundValue,
    count_features,
    index_contexts,
    response_values,
)
from trivet.data.tokenization import (
    BoolArray,
    FloatArray,
    IntArray,
    SpecialTokens,
    TokenizedExample,
)
from trivet.data.window_layout import Frame, WindowLayout
from trivet.errors import ExampleError, WindowError

# numpy.ndarray or torch.Tensor: a batch keeps its field names when it is converted.
Array = Any

FRAME = 4  # of the plain layout: [CLS] ... [SEP] question [SEP] response [SEP]
QUESTION_SHARE = 4  # a question may fill one fourth of a window
RESPONSE_SHARE = 2  # a response may fill half of a window; a longer one is read in chunks
TAIL_SHARE = 4  # a slice ends at a sentence end if there is one in its last fourth


class Plan(NamedTuple):
    """Estimated windows of an example."""

    chunks: list[tuple[int, int]]  # first and one-past-last response token of each
    room: int  # positions for context in a window
    windows: int  # if every slice were full and every chunk had evidence
    cut: int  # question tokens that do not fit


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """Window settings. They belong to the weights: inputs must be cut as in training."""

    size: int = 512  # most positions in a window, at least 32
    stride_overlap: int = 0  # context tokens that a slice repeats from the previous one
    # context sentences for each response sentence in the evidence windows, which examples of
    # several slices have; 0 for none of these
    evidence_sentences: int = 0
    # whether an example of several slices is cut with those contexts first that share most words
    # with question and response, so that a slice shows together what belongs together
    sort_contexts: bool = False
    layout: WindowLayout = "plain"

    # For pydantic, which reads these settings from ``bundle.json``.
    __pydantic_config__: ClassVar[dict[str, Any]] = {"strict": True, "extra": "forbid"}

    def __post_init__(self) -> None:
        if self.evidence_sentences < 0:
            raise WindowError(
                f"window.evidence_sentences ({self.evidence_sentences}) must be at least 0"
            )
        size = self.size
        if size < 32:
            raise WindowError(f"window.size ({size} tokens) must be at least 32")
        # The fewest positions that question and response can leave.
        room = size - size // QUESTION_SHARE - size // RESPONSE_SHARE - FRAME
        if not 0 <= self.stride_overlap < room // 4 + 1:
            raise WindowError(
                f"window.stride_overlap ({self.stride_overlap} tokens) must be between 0 and "
                f"{room // 4}: a long question and response leave {room} of {size} positions for "
                "context; lower window.stride_overlap or raise window.size"
            )

    def frame(self, tokenized: TokenizedExample, special: SpecialTokens) -> Frame:
        """Return the fixed parts of an example's windows."""
        # An evidence window may cut its passages into as many as it has sentences.
        sentences = self.evidence_sentences * len(tokenized.response_sentence_spans)
        passages = int(tokenized.context_index.max(initial=-1)) + 1
        return Frame(self.layout, len(tokenized.question) > 0, special, passages + sentences)

    def leads(self, has_question: bool) -> tuple[str, str]:
        """Return the white space that is tokenized with the question and with each passage."""
        if self.layout == "plain":
            return "", ""
        return "\n" if has_question else "", " "

    def plan(self, tokenized: TokenizedExample, fixed: int) -> Plan:
        """Return the chunks of the response and the positions that they leave for context.

        ``fixed`` is the number of positions of the layout's fixed pieces.

        Raises:
            WindowError: These leave no positions for context.
        """
        size, context = self.size, len(tokenized.context.ids)
        question = min(len(tokenized.question.ids), size // QUESTION_SHARE)
        answer = np.arange(len(tokenized.response.ids))
        chunks = _cut(tokenized.response_sentence, answer, size // RESPONSE_SHARE, overlap=0)
        longest = max(stop - start for start, stop in chunks)
        room = size - question - longest - fixed
        if room <= self.stride_overlap:
            raise WindowError(
                f"the fixed texts of window.layout ({fixed} tokens), question ({question}) and "
                f"response ({longest}) leave {room} of {size} positions for context; raise "
                "window.size"
            )
        # The first slice fills the window; each further one adds the tokens after the overlap.
        step = room - self.stride_overlap
        slices = max(1, math.ceil((context - self.stride_overlap) / step))
        shown = slices + (self.evidence_sentences > 0)
        return Plan(chunks, room, len(chunks) * shown, len(tokenized.question.ids) - question)


@dataclass(frozen=True, slots=True)
class Layout:
    """One example as rows of ids, one per window, and maps from its tokens to the rows."""

    window_size: int  # most positions in a window
    rows: tuple[IntArray, ...]  # token ids of each window
    segments: tuple[IntArray, ...]  # 0 for context and question, 1 for the response, as ``rows``
    # row and column of the k-th copy of each response token, -1 for none; if there are evidence
    # windows, the last copies are in these, [R, K]
    response_row: IntArray
    response_column: IntArray
    # row and column of the one copy of each context token that counts, [C]
    context_row: IntArray
    context_column: IntArray
    context_weight: FloatArray  # 1 / (sentences x tokens in the token's sentence), [C]
    question_overlap: FloatArray  # this and the next two as in ``Windows``, without padding
    response_overlap: FloatArray
    sentence_features: FloatArray
    roles: tuple[SentenceRole, ...]  # of response sentences; without a claim they count in no mean
    values: tuple[tuple[FoundValue, ...], ...]  # of each response sentence, with their status
    context_values: ContextValues  # of the context sentences; none without a response
    # context sentences that share most words with each response sentence, best first, [S, at least
    # 3, or all]
    sources: IntArray
    response_sentence: IntArray  # sentence of each response token, [R]
    sentences: int  # number of response sentences, S
    context_sentence: IntArray  # sentence of each context token, [C]
    # numbers of the context tokens that each row shows, from left to right, and their columns
    row_context: tuple[IntArray, ...]
    row_columns: tuple[IntArray, ...]
    # whether each row is an evidence window, which owns no context token and has its own part in
    # the joining (``model.aggregate``), [rows]
    row_is_evidence: BoolArray
    cut_question_tokens: int  # those that did not fit
    response_chunks: int  # in which the response is read

    def sentence_pool(self) -> FloatArray:
        """Return the row of each sentence that averages its tokens, 0 without a claim. [S, R]."""
        sentence, tokens = self.response_sentence, len(self.response_sentence)
        pool = np.zeros((self.sentences, tokens), dtype=np.float32)
        pool[sentence, np.arange(tokens)] = (1.0 / np.bincount(sentence))[sentence]
        pool[[role != "claim" for role in self.roles]] = 0.0
        return pool

    def ordinary_windows(self) -> IntArray:
        """Return in how many ordinary windows each response token counts. *Shape:* [R]."""
        ordinary = (self.response_row >= 0) & ~self.row_is_evidence[self.response_row]
        counts: IntArray = ordinary.sum(axis=1)
        return counts


class Windows(NamedTuple):
    """Inputs of the model and of every backend; the field names are the ONNX input names."""

    input_ids: Array  # token ids, [N, L] int64
    attention_mask: Array  # 1 where real, [N, L] int64
    segment_ids: Array  # 0 context and question, 1 response, [N, L] int64
    # flat position n * L + l of the k-th copy of response token r, -1 for none, [B, R, K] int64
    response_at: Array
    # flat position of the one copy of context token c that counts, -1 on padding, [B, C] int64
    context_at: Array
    # sums to 1 over an example's context tokens, 0 on padding, [B, C] float32
    context_weight: Array
    # lexical overlap of the token's sentence with the question, in [0, 1]
    # (``data.lexical_overlap``); 0 on padding, [B, C] float32
    question_overlap: Array
    response_overlap: Array  # lexical overlap with the response, [B, C] float32
    # row s averages the tokens of response sentence s; zero rows are padding or sentences without a
    # claim, [B, S, R] float32
    sentence_pool: Array
    # counted features of response sentence s (``data.sentence_features``); 0 on padding,
    # [B, S, F] float32
    sentence_features: Array


def lay_out(
    tokenized: TokenizedExample,
    settings: WindowSettings,
    special: SpecialTokens,
    contexts: ContextValues | None = None,
    max_windows: int | None = None,
) -> Layout:
    """Cut one example into windows.

    A question over a fourth of the window is truncated, and ``cut_question_tokens`` counts the
    rest. A response over half of it is read in chunks, and each chunk is shown with every slice of
    the contexts. After several of these ordinary windows, an evidence window for each chunk shows
    the context sentences that share most with it. ``contexts`` may bring the example's values of
    ``index_contexts``, if they are known already.

    Raises:
        ExampleError: It makes more than ``max_windows``, whose index maps would fill the memory.
        WindowError: The fixed parts of a window leave no room for context.
    """
    frame = settings.frame(tokenized, special)
    fixed, gap = frame.positions, frame.gap
    plan = settings.plan(tokenized, fixed)
    if max_windows is not None and plan.windows > max_windows:
        raise ExampleError(
            f"{len(tokenized.context)} context tokens and {len(tokenized.response)} response "
            f"tokens make about {plan.windows} windows, more than max_windows ({max_windows}); use "
            "fewer contexts or a shorter response, or raise max_windows",
            code="too_long",
        )
    chunks = plan.chunks
    question = tokenized.question.ids[: settings.size // QUESTION_SHARE]
    count, answer = len(tokenized.context.ids), len(tokenized.response.ids)
    order, places = np.arange(count), _places(tokenized.context_index, gap)
    if settings.sort_contexts and count and places[-1] >= plan.room:
        order = np.argsort(rank_contexts(tokenized), kind="stable")
        places = _places(tokenized.context_index[order], gap)
    sentence = tokenized.context_sentence[order]
    slices = _cut(sentence, places, plan.room, settings.stride_overlap)
    overlaps = count_overlaps(tokenized, max(settings.evidence_sentences, NEAR_SENTENCES))
    evidence: list[EvidenceWindow] = []
    if settings.evidence_sentences and overlaps.sources.size and len(slices) > 1:
        room = settings.size - len(question) - fixed
        sources = overlaps.sources[:, : settings.evidence_sentences]
        evidence = list(choose_evidence(tokenized, sources, chunks, room, gap))

    rows: list[IntArray] = []
    segments: list[IntArray] = []
    response_row = np.full((answer, len(slices) + bool(evidence)), -1, dtype=np.int64)
    response_column = response_row.copy()
    context_row = np.full(count, -1, dtype=np.int64)
    context_column = context_row.copy()
    nearest = np.full(count, np.inf)
    # The chunk, context tokens, ids before the response, their columns of context tokens, and the
    # copy of the response in each row.
    plans: list[tuple[tuple[int, int], IntArray, IntArray, IntArray, int]] = []

    def head(shown: IntArray) -> tuple[IntArray, IntArray]:
        return frame.head(question, tokenized.context.ids[shown], runs_of(tokenized, shown))

    for number, (start, stop) in enumerate(slices):
        before, columns = head(order[start:stop])
        # If two slices show a token, the copy nearer the middle of its slice counts.
        distance = np.abs(np.arange(start, stop) - (start + stop - 1) / 2)
        owned = np.flatnonzero(distance < nearest[start:stop])
        nearest[start + owned] = distance[owned]
        context_row[order[start + owned]] = len(plans)
        context_column[order[start + owned]] = columns[owned]
        plans += [(chunk, order[start:stop], before, columns, number) for chunk in chunks]
    plans += [(chunk, shown, *head(shown), len(slices)) for chunk, shown in evidence]
    after = frame.tail()
    for chunk, _, before, _, copy in plans:
        ids = tokenized.response.ids[slice(*chunk)]
        begin = len(before)
        response_row[slice(*chunk), copy] = len(rows)
        response_column[slice(*chunk), copy] = np.arange(begin, begin + len(ids))
        row = np.concatenate([before, ids, after])
        rows.append(row)
        segments.append((np.arange(len(row)) >= begin).astype(np.int64))
    contexts = contexts or (index_contexts(tokenized) if answer else NO_CONTEXTS)
    values = response_values(tokenized, overlaps, contexts) if answer else ()
    # Every sentence has the same weight, shared equally by its tokens.
    lengths = np.bincount(tokenized.context_sentence)
    shares = np.count_nonzero(lengths) * lengths[tokenized.context_sentence]
    return Layout(
        window_size=settings.size,
        rows=tuple(rows),
        segments=tuple(segments),
        response_row=response_row,
        response_column=response_column,
        context_row=context_row,
        context_column=context_column,
        context_weight=(1.0 / shares).astype(np.float32),
        question_overlap=overlaps.question,
        response_overlap=overlaps.response,
        sentence_features=count_features(tokenized, overlaps, values, contexts),
        roles=sentence_roles(
            tokenized.example.response, tokenized.response_sentence_spans, values, contexts
        ),
        values=values,
        context_values=contexts,
        sources=overlaps.sources,
        response_sentence=tokenized.response_sentence,
        sentences=len(tokenized.response_sentence_spans),
        context_sentence=tokenized.context_sentence,
        row_context=tuple(shown for _, shown, *_ in plans),
        row_columns=tuple(columns for *_, columns, _ in plans),
        row_is_evidence=np.arange(len(rows)) >= len(rows) - len(evidence),
        cut_question_tokens=plan.cut,
        response_chunks=len(chunks),
    )


def _places(passage: IntArray, gap: int) -> IntArray:
    """Return the places of tokens in an endless row with ``gap`` places between passages."""
    ends: IntArray = np.concatenate([[0], np.cumsum(np.diff(passage) != 0)])[: len(passage)]
    return gap * ends + np.arange(len(passage))


def _cut(sentence: IntArray, places: IntArray, room: int, overlap: int) -> list[tuple[int, int]]:
    """Cut T tokens into pieces that fill at most ``room`` places; at least one piece.

    A piece ends at the last sentence end in its last fourth, or where the window is full.
    """
    total = len(sentence)
    ends = np.flatnonzero(np.diff(sentence) != 0) + 1  # one past the last token of each sentence
    pieces, start = [], 0
    while True:
        stop = int(np.searchsorted(places, places[start] + room)) if total else 0
        if stop >= total:
            pieces.append((start, total))
            return pieces
        least = int(np.searchsorted(places, places[start] + room - room // TAIL_SHARE))
        first = np.searchsorted(ends, max(least, start + 1))
        candidates = ends[first : np.searchsorted(ends, stop, "right")]
        stop = int(candidates[-1]) if len(candidates) else stop
        pieces.append((start, stop))
        start = max(stop - overlap, start + 1)
