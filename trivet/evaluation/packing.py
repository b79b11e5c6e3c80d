"""Packing windows of many examples into backend calls, and joining what the calls answer."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trivet.backends.backend import POSITIONS, AllThreadsBackend, Backend
from trivet.data.collating import collate
from trivet.data.evidence_pairs import window_sentences
from trivet.data.lexical_overlap import distinct
from trivet.data.sentence_features import FEATURES
from trivet.data.tokenization import FloatArray, IntArray
from trivet.data.windows import Layout, Windows
from trivet.errors import BackendError
from trivet.heads import DEFAULT_HEADS, HeadName
from trivet.model.aggregate import (
    Outputs,
    evidence_logits,
    heads_of,
    join,
    join_evidence_probs,
    response_support,
)
from trivet.model.architecture import NO_LAYER, Reduction, SentenceLayer

_BLOCK = 512  # response tokens that are joined at once; their sentence pool takes 1 MB at most
_ROUNDING = 1e-3  # by how much a probability may leave [0, 1]; further, the backend is broken


class BatchLimits(NamedTuple):
    """Capacity of one call of a backend, in windows and in positions, padding included."""

    positions: int = POSITIONS  # a single longer window still gets a call
    step: int = 1  # windows count as a multiple of this many positions
    max_windows: int | None = None  # however short they are

    def padded(self, length: int) -> int:
        """Return the positions that a window of ``length`` tokens takes."""
        return math.ceil(max(1, length) / self.step) * self.step

    def windows(self, length: int) -> int:
        """Return how many windows fit in a call whose longest window has ``length`` tokens."""
        fitting = max(1, self.positions // self.padded(length))
        return fitting if self.max_windows is None else min(fitting, self.max_windows)


class WindowAccumulator:
    """Token probabilities of one example, collected over several backend calls. Thread-safe."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.error: BackendError | None = None  # that of the first call; later ones need not run
        self.failed_call = math.inf  # number of the first call known to have failed
        self._lock = threading.Lock()
        # Before any window ran, nothing is supported, relevant or utilized.
        self._heads: tuple[HeadName, ...] = DEFAULT_HEADS  # those of the answers
        tokens = len(layout.context_row)
        self._support: FloatArray = np.zeros(len(layout.response_sentence), np.float32)
        self._evidence: FloatArray = np.full(len(layout.response_sentence), np.nan, np.float32)
        self._relevance: FloatArray = np.zeros(tokens, np.float32)
        self._utilization: FloatArray = np.zeros(tokens, np.float32)
        self.evidence: FloatArray | None = None  # logits of pairs [S, X]; None without that head

    def take(self, rows: Sequence[int]) -> tuple[Layout, IntArray, IntArray]:
        """Return some windows, and the numbers of their response and context tokens.

        The graph takes the maximum over them, so all must be ordinary or all evidence windows.
        """
        part, context = take_windows(self.layout, rows)
        response = np.flatnonzero((part.response_row >= 0).any(axis=1))
        shown = dataclasses.replace(
            part,
            response_row=part.response_row[response],
            response_column=part.response_column[response],
            response_sentence=np.zeros(len(response), dtype=np.int64),
            sentences=1,  # the pool of a very long response would not fit in memory
            sentence_features=np.zeros_like(part.sentence_features[:1]),
            roles=("claim",),
        )
        return shown, response, context

    def fail(self, error: BackendError, number: int) -> None:
        """Keep the error of a call, unless one before it failed."""
        with self._lock:
            if number < self.failed_call:
                self.error, self.failed_call = error, number

    def add(
        self,
        is_evidence: bool,
        taken: tuple[Layout, IntArray, IntArray],
        answer: Outputs,
        b: int,
        first: int,
    ) -> None:
        """Add row ``b`` of an answer, for what ``take`` returned.

        ``first`` is the number of its first window among those of the call.

        Raises:
            BackendError: A number of the answer is not usable.
        """
        part, response, context = taken
        support_of = self._evidence if is_evidence else self._support
        with self._lock:
            r, c = len(response), len(context)
            self._heads = heads_of(answer.present())
            if "support" in self._heads:
                support = probabilities(answer.support_probs[b, :r], "support_probs")
                # As ``supported_anywhere`` reduces copies: a maximum of maxima is the maximum.
                support_of[response] = np.fmax(support_of[response], support)
            if "relevance" in self._heads:
                probs = probabilities(answer.relevance_probs[b, :c], "relevance_probs")
                self._relevance[context] = probs
            if "utilization" in self._heads:
                probs = probabilities(answer.utilization_probs[b, :c], "utilization_probs")
                self._utilization[context] = probs
            if "evidence" in self._heads:
                states = answer.evidence_states[first : first + len(part.rows)]
                sentences = self.layout.response_sentence[response]
                if self.evidence is None:
                    self.evidence = no_pairs(self.layout)
                add_pairs(self.evidence, part, states, sentences)

    def join(self, faithfulness: Reduction, layer: SentenceLayer = NO_LAYER) -> Outputs:
        """Return the scores, with B = 1, or raise the error of a call.

        The outputs of heads that no answer had are None.
        """
        if self.error is not None:
            raise self.error
        support, gathered = self._support, ~np.isnan(self._evidence)
        if gathered.any():
            windows = self.layout.ordinary_windows()
            support = join_evidence_probs(support, self._evidence, gathered, windows)
        # In blocks, since a sentence pool grows with the square of the length of the response.
        cuts = [0]
        for end in np.flatnonzero(np.diff(self.layout.response_sentence)) + 1:
            if end - cuts[-1] >= _BLOCK:
                cuts.append(int(end))
        blocks = [
            self._join_block(support[start:stop], start, faithfulness, layer)
            for start, stop in zip(cuts, [*cuts[1:], len(support)], strict=True)
        ]
        if "support" not in self._heads:
            return blocks[0]
        joined = blocks[0]._replace(support_probs=support[None])
        if len(blocks) == 1:
            return joined
        sentences = np.concatenate([block.sentence_support for block in blocks], axis=-1)
        every_token = np.ones_like(joined.support_probs, dtype=np.bool_)
        claims = np.array([[role == "claim" for role in self.layout.roles]])
        whole = response_support(joined.support_probs, every_token, sentences, claims, faithfulness)
        return joined._replace(sentence_support=sentences, faithfulness=whole)

    def _join_block(
        self, support: FloatArray, start: int, faithfulness: Reduction, layer: SentenceLayer
    ) -> Outputs:
        """Join the response tokens of some whole sentences; ``support`` is theirs."""
        real, tokens = len(support), max(1, len(support))  # no tokens: one of padding
        padded = np.zeros((1, tokens), dtype=np.float32)
        padded[0, :real] = support
        sentence = self.layout.response_sentence[start : start + real]
        numbers = sentence - sentence[:1]
        counts = np.bincount(numbers, minlength=1)
        pool = np.zeros((1, len(counts), tokens), dtype=np.float32)
        pool[0, numbers, np.arange(real)] = 1.0 / counts[numbers]
        features = np.zeros((1, len(counts), len(FEATURES)), dtype=np.float32)
        if real:
            own_sentences = slice(int(sentence[0]), int(sentence[0]) + len(counts))
            pool[0, [role != "claim" for role in self.layout.roles[own_sentences]]] = 0.0
            features[0] = self.layout.sentence_features[own_sentences]
        shares = (
            self._relevance[None] if "relevance" in self._heads else None,
            self._utilization[None] if "utilization" in self._heads else None,
        )
        mask, weight = np.arange(tokens)[None] < real, self.layout.context_weight[None]
        own_support = padded if "support" in self._heads else None
        return join(own_support, *shares, mask, weight, pool, features, faithfulness, layer)


class BackendCall:
    """Windows of some examples that run together: first ``run``, then ``add``."""

    def __init__(self, windows: Iterable[tuple[WindowAccumulator, int]], number: int = 0) -> None:
        """Group windows by example and kind; ``number`` counts the calls of a job from 0."""
        self.number = number
        self.answer: Outputs | BackendError | None = None  # none before the call and if skipped
        self._taken: list[tuple[Layout, IntArray, IntArray]] = []
        # By example, and whether they are evidence windows: the host joins the two kinds.
        self._rows: dict[tuple[WindowAccumulator, bool], list[int]] = {}
        for example, row in windows:
            kind = bool(example.layout.row_is_evidence[row])
            self._rows.setdefault((example, kind), []).append(row)

    def is_needed(self) -> bool:
        """Return whether an example has not failed in an earlier call.

        Such a call runs whole: the last digits of an int8 backend depend on all its windows.
        """
        return any(example.failed_call > self.number for example, _ in self._rows)

    def collate(self, pad: int) -> Windows:
        """Return the windows as the backend takes them; ``pad`` is the token id of padding."""
        self._taken = [example.take(sorted(rows)) for (example, _), rows in self._rows.items()]
        return collate([layout for layout, _, _ in self._taken], pad)

    def run(self, backend: Backend, pad: int, at_once: int) -> None:
        """Run the backend and keep its answer or error; ``at_once`` calls run, with this one."""
        run = backend.run
        if isinstance(backend, AllThreadsBackend) and 2 * at_once <= backend.workers:
            run = backend.run_all_threads
        windows = self.collate(pad)
        try:
            self.answer = run(windows)
        except BackendError as error:
            self.answer = error

    def add(self) -> None:
        """Add the answer, or the error, to every example of the call."""
        if isinstance(self.answer, BackendError):
            for example, _ in self._rows:
                example.fail(self.answer, self.number)
        elif self.answer is not None:
            first = 0
            for b, (kind, taken) in enumerate(zip(self._rows, self._taken, strict=True)):
                example, is_evidence = kind
                try:
                    example.add(is_evidence, taken, self.answer, b, first)
                except BackendError as error:
                    example.fail(error, self.number)
                first += len(taken[0].rows)


def take_windows(layout: Layout, rows: Sequence[int]) -> tuple[Layout, IntArray]:
    """Return a layout of some of a layout's rows, and the numbers of its context tokens.

    For examples with more windows than one call of a backend takes. The part keeps all response
    tokens, with the copies in these rows, and the context tokens whose counting copy is in them;
    their numbers in the whole have *shape* [part's C].
    """
    chosen = np.asarray(rows, dtype=np.int64)
    renumber = np.full(len(layout.rows) + 1, -1, dtype=np.int64)  # the last entry is for row -1
    renumber[chosen] = np.arange(len(chosen))
    response_row = renumber[layout.response_row]
    shown = np.flatnonzero((response_row >= 0).any(axis=0))
    # The counting copies are among the context tokens that the ordinary rows show.
    read = [layout.row_context[row] for row in chosen[~layout.row_is_evidence[chosen]]]
    held = distinct(np.concatenate([np.zeros(0, dtype=np.int64), *read]))
    held = held[renumber[layout.context_row[held]] >= 0]
    part = dataclasses.replace(
        layout,
        rows=tuple(layout.rows[row] for row in chosen),
        segments=tuple(layout.segments[row] for row in chosen),
        response_row=response_row[:, shown],
        response_column=layout.response_column[:, shown],
        context_row=renumber[layout.context_row[held]],
        context_column=layout.context_column[held],
        context_weight=layout.context_weight[held],
        question_overlap=layout.question_overlap[held],
        response_overlap=layout.response_overlap[held],
        row_context=tuple(layout.row_context[row] for row in chosen),
        row_columns=tuple(layout.row_columns[row] for row in chosen),
        row_is_evidence=layout.row_is_evidence[chosen],
    )
    return part, held


def no_pairs(layout: Layout) -> FloatArray:
    """Return logits of pairs of sentences before any window. *Shape:* [S, X]."""
    shape = layout.sentences, int(layout.context_sentence.max(initial=-1)) + 1
    return np.full(shape, -np.inf, dtype=np.float32)


def add_pairs(
    pairs: FloatArray, part: Layout, states: FloatArray, response_sentence: IntArray
) -> None:
    """Add the pairs of sentences that some windows show.

    A pair shown by several windows keeps its highest logit, e.g. when a sentence is split.

    Args:
        pairs: Logits of the pairs of the windows before, changed in place. *Shape:* [S, X].
        part: Windows, of which evidence windows are left out.
        states: Their states, which may be padded. *Shape:* [N, L, P].
        response_sentence: Sentence of each response token of the part. *Shape:* [R].

    Raises:
        BackendError: A state is not finite.
    """
    if not np.isfinite(states).all():
        raise BackendError("the backend answered evidence_states that are not finite", "non_finite")
    for n in np.flatnonzero(~part.row_is_evidence):
        shown = window_sentences(part, int(n), states.shape[1], response_sentence)
        at = np.ix_(shown.response, shown.context)
        logits = evidence_logits(states[n], shown.response_pool, shown.context_pool)
        pairs[at] = np.maximum(pairs[at], logits)


def probabilities(values: npt.ArrayLike, name: str) -> FloatArray:
    """Return values of a field of ``Outputs`` as float32 in [0, 1], or raise ``BackendError``."""
    array = np.asarray(values, dtype=np.float32)
    usable = np.isfinite(array) & (array >= -_ROUNDING) & (array <= 1 + _ROUNDING)
    if not usable.all():
        culprit = array[~usable].flat[0]
        raise BackendError(
            f"the backend answered {name} = {culprit} ({int((~usable).sum())} of {array.size} "
            "values are not probabilities); the model or its backend is broken, export the bundle "
            "again",
            code="backend_failed" if np.isfinite(array).all() else "non_finite",
        )
    return np.clip(array, 0.0, 1.0)
