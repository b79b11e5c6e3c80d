"""Logits of each head for labelled rows, before any calibration."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trivet.data.lexical_overlap import pair_overlaps
from trivet.data.tokenization import BoolArray, IntArray
from trivet.evaluation.packing import add_pairs, no_pairs
from trivet.heads import HEAD_NAMES, HeadName
from trivet.labelled.datamodule import Item, collate_items
from trivet.labelled.labels import evidence_labels
from trivet.measures.curves import FloatArray
from trivet.measures.predictions import touched_sentences
from trivet.model.rag_model import RagModel, TokenLogits, question_similarity
from trivet.model.slices import read_in_slices
from trivet.records import ContextSpan, Labels, Span
from trivet.thresholds.joining import HeadLogits

_Kind = TypeVar("_Kind", bound=np.generic)


@dataclass(frozen=True)
class _Row:
    """Logits and labels of one head and example; ``copies`` is the number of windows per token.

    A row of the evidence head holds a pair of sentences where others hold a token and its sentence.
    """

    logits: FloatArray
    copies: IntArray
    is_evidence: BoolArray  # of the copies
    sentence: IntArray
    truth: FloatArray
    lexical_overlap: FloatArray
    similarity: FloatArray | None = None  # of relevance alone
    features: FloatArray | None = None  # of sentences, of support alone
    has_claim: BoolArray | None = None  # likewise


def read_heads(
    model: RagModel,
    items: Sequence[Item],
    pad: int,
    call_windows: int,
    heads: Collection[HeadName] = HEAD_NAMES,
) -> dict[HeadName, HeadLogits]:
    """Return logits and labels of all examples, by a model in eval mode, for heads that it has.

    The encoder reads at most ``call_windows`` windows at once. The evidence head returns only
    pairs of sentences with labels, and for it alone an example without them is not read.
    """
    wanted = [name for name in HEAD_NAMES if name in model.heads and name in heads]
    rows: dict[HeadName, list[_Row]] = {name: [] for name in wanted}
    for item in items:
        for name, row in _read(model, item, pad, call_windows, wanted).items():
            rows[name].append(row)
    weight = np.array([item.labelled.weight for item in items], dtype=np.float64)
    verdict = np.array([_verdict(item) for item in items], dtype=np.float64)
    unknown = np.full_like(verdict, np.nan)
    return {
        name: _together(head_rows, verdict if name == "support" else unknown, weight)
        for name, head_rows in rows.items()
    }


def tokens_read(item: Item) -> int:
    """Return the number of tokens of contexts, question and response."""
    return len(item.tokenized.context) + len(item.tokenized.question) + len(item.tokenized.response)


def _read(
    model: RagModel, item: Item, pad: int, call_windows: int, heads: Collection[HeadName]
) -> dict[HeadName, _Row]:
    pairs = evidence_labels(item.labelled, item.tokenized)
    asked: set[str] = {name for name in heads if name != "evidence"}
    if "relevance" in heads or (pairs >= 0).any():  # relevance may weigh a similarity of its states
        asked |= {"evidence"} & model.heads.keys()
    windows, is_evidence, *_ = collate_items([item], pad)
    logits: TokenLogits = {}
    if asked:
        device = next(model.parameters()).device
        with torch.inference_mode():
            inputs = [tensor.to(device) for tensor in windows[:3]]
            logits = read_in_slices(model, inputs, call_windows, asked)
        logits = {name: values.float().cpu() for name, values in logits.items()}
    read, layout, labels = item.tokenized, item.layout, item.labelled.labels
    context_at = windows.context_at[0, : len(layout.context_row)]
    response_at = windows.response_at[0, : len(layout.response_row)]
    shown = response_at >= 0
    answered = len(read.response) > 0
    rows: dict[HeadName, _Row] = {}
    if "support" in logits:
        has_claim = np.array([role == "claim" for role in layout.roles], dtype=np.bool_)
        truth = _supported(read.response_sentence_spans, labels)
        rows["support"] = _Row(
            logits=logits["support"].flatten(0, 1)[response_at[shown]].numpy(),
            copies=shown.sum(-1).numpy(),
            is_evidence=is_evidence.expand_as(shown)[shown].numpy(),
            sentence=read.response_sentence,
            truth=np.where(has_claim, truth, np.nan),
            lexical_overlap=np.zeros(int(shown.sum())),
            features=layout.sentence_features.astype(np.float64),
            has_claim=has_claim,
        )
    # Without a response no utilization is reported.
    utilized = labels.utilized if answered else None
    contexts: tuple[tuple[HeadName, Tensor, Sequence[ContextSpan] | None], ...] = (
        ("relevance", windows.question_overlap, labels.relevant),
        ("utilization", windows.response_overlap, utilized),
    )
    for name, overlap, spans in contexts:
        if name not in logits:
            continue
        overlap = overlap[0, : len(context_at)]
        known = model.with_overlap(name, logits[name], context_at, overlap)
        similarity = None
        if name == "relevance" and "evidence" in logits:
            with torch.autocast("cpu", enabled=False):  # in fp32, as the graph computes it
                similarity = question_similarity(logits["evidence"], *windows[1:3], context_at)
            known = known + model.similarity * similarity
        rows[name] = _Row(
            logits=known.numpy(),
            copies=np.ones(len(context_at), dtype=np.int64),
            is_evidence=np.zeros(len(context_at), dtype=np.bool_),
            sentence=read.context_sentence,
            truth=_marked(read.context_sentence_spans, spans),
            lexical_overlap=overlap.numpy().astype(np.float64),
            similarity=None if similarity is None else similarity.numpy().astype(np.float64),
        )
    if "evidence" in heads:
        rows["evidence"] = _pair_row(item, pairs, logits.get("evidence"))
    return rows


def _pair_row(item: Item, labels: IntArray, states: Tensor | None) -> _Row:
    """Return the pairs of sentences with labels. *Shapes:* [S, X], [N, L, D] or None: not read."""
    logits, overlaps = no_pairs(item.layout), np.zeros(labels.shape)
    if states is not None:
        add_pairs(logits, item.layout, states.numpy(), item.layout.response_sentence)
        overlaps = np.stack(list(pair_overlaps(item.tokenized)))
    known = (labels >= 0) & np.isfinite(logits)  # -inf: no window shows both
    count = int(known.sum())
    return _Row(
        logits=logits[known].astype(np.float64),
        copies=np.ones(count, dtype=np.int64),
        is_evidence=np.zeros(count, dtype=np.bool_),
        sentence=np.arange(count),
        truth=labels[known].astype(np.float64),
        lexical_overlap=overlaps[known].astype(np.float64),
    )


def _together(rows: Sequence[_Row], verdict: FloatArray, weight: FloatArray) -> HeadLogits:
    sentences = np.array([len(row.truth) for row in rows])
    before = np.cumsum(sentences) - sentences
    copies = np.concatenate([row.copies for row in rows])
    several = bool((copies != 1).any())
    is_evidence = np.concatenate([row.is_evidence for row in rows])
    return HeadLogits(
        logits=np.concatenate([row.logits for row in rows]).astype(np.float64),
        token=np.repeat(np.arange(len(copies)), copies) if several else None,
        sentence=np.concatenate(
            [row.sentence + start for row, start in zip(rows, before, strict=True)]
        ),
        row=np.repeat(np.arange(len(rows)), sentences),
        truth=np.concatenate([row.truth for row in rows]),
        verdict=verdict,
        weight=weight,
        lexical_overlap=np.concatenate([row.lexical_overlap for row in rows]),
        similarity=_stacked([row.similarity for row in rows]),
        is_evidence=is_evidence if is_evidence.any() else None,
        features=_stacked([row.features for row in rows]),
        has_claim=_stacked([row.has_claim for row in rows]),
    )


def _stacked(arrays: Sequence[npt.NDArray[_Kind] | None]) -> npt.NDArray[_Kind] | None:
    present = [array for array in arrays if array is not None]
    return np.concatenate(present) if present else None


def _verdict(item: Item) -> float:
    """Return 1 for an adherent response, 0 for another, NaN if unknown."""
    known = int(item.targets.adherent)
    return float(known) if known >= 0 and len(item.tokenized.response) else float("nan")


def _supported(sentences: Sequence[Span], labels: Labels) -> FloatArray:
    """Return whether each response sentence is supported; NaN if unknown.

    The verdict on a response is that on its only sentence, and right if all of them are.
    """
    if labels.unsupported is None:
        if labels.adherent:
            return np.ones(len(sentences))
        known = labels.adherent is False and len(sentences) == 1
        return np.full(len(sentences), 0.0 if known else np.nan)
    unsupported = touched_sentences(sentences, labels.unsupported)
    unclear = touched_sentences(sentences, labels.unclear) & ~unsupported
    return np.where(unclear, np.nan, np.where(unsupported, 0.0, 1.0))


def _marked(sentences: Sequence[ContextSpan], spans: Sequence[ContextSpan] | None) -> FloatArray:
    """Return whether a span touches each context sentence; NaN if unknown."""
    if spans is None:
        return np.full(len(sentences), np.nan)
    marks = np.zeros(len(sentences))
    context = np.array([sentence.context for sentence in sentences])
    for number in {span.context for span in spans}:
        here = context == number
        inside = [sentence for sentence in sentences if sentence.context == number]
        marks[here] = touched_sentences(inside, [span for span in spans if span.context == number])
    return marks
