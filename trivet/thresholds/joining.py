"""Logits of labelled examples, joined as in the model over ragged examples, for fits by torch.

Letters: M copies of tokens in windows, T tokens, S sentences, B examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from trivet.measures.curves import BoolArray, FloatArray, IntArray
from trivet.model.aggregate import join_evidence, weigh_sentences
from trivet.model.architecture import NO_LAYER, Reduction, SentenceLayer

if TYPE_CHECKING:  # loaded late: thresholds alone need no torch
    from torch import Tensor

_Kind = TypeVar("_Kind", bound=np.generic)


@dataclass(frozen=True)
class HeadLogits:
    """The logits of one head for all examples, and their labels."""

    logits: FloatArray  # of copies: [M], or [M, 3] or [M, 2] for support
    token: IntArray | None  # token of each copy [M]; None if every token has one copy
    sentence: IntArray  # sentence of each token, over all examples [T]
    row: IntArray  # example of each sentence [S]
    truth: FloatArray  # labels of sentences: 1, 0, NaN where unknown [S]
    verdict: FloatArray  # labels of responses: 1, 0 or NaN; all NaN for context heads [B]
    weight: FloatArray  # of examples [B]
    lexical_overlap: FloatArray | None = None  # of each copy's sentence [M]; None where unknown
    similarity: FloatArray | None = None  # logits of question and sentence [M]; likewise
    is_evidence: BoolArray | None = None  # copies in evidence windows [M]; None if there are none
    features: FloatArray | None = None  # of sentences (``data.sentence_features``) [S, F]; support
    has_claim: BoolArray | None = None  # of sentences [S]; None if all have

    def select(self, rows: BoolArray) -> HeadLogits:
        """Return the logits and labels of some examples. *Shape of rows:* [B]."""
        sentences = rows[self.row]
        tokens = sentences[self.sentence]
        copies = tokens if self.token is None else tokens[self.token]
        return HeadLogits(
            logits=self.logits[copies],
            token=None if self.token is None else _renumbered(self.token[copies], tokens),
            sentence=_renumbered(self.sentence[tokens], sentences),
            row=_renumbered(self.row[sentences], rows),
            truth=self.truth[sentences],
            verdict=self.verdict[rows],
            weight=self.weight[rows],
            lexical_overlap=_some(self.lexical_overlap, copies),
            similarity=_some(self.similarity, copies),
            is_evidence=_some(self.is_evidence, copies),
            features=_some(self.features, sentences),
            has_claim=_some(self.has_claim, sentences),
        )


@dataclass(frozen=True)
class Probabilities:
    """Probabilities of tokens [T], sentences [S] and responses [B] (1 without a token)."""

    tokens: FloatArray
    sentences: FloatArray
    faithfulness: FloatArray


def join_logits(
    head: HeadLogits,
    margins: Tensor,
    faithfulness: Reduction,
    layer: SentenceLayer = NO_LAYER,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the fields of ``Probabilities`` that logits of the positive class mean.

    The logits are of the copies [M], or of the tokens [T] if there is no evidence window.
    """
    import torch

    sentence, row = torch.from_numpy(head.sentence), torch.from_numpy(head.row)
    count = len(head.weight)
    tokens = _join_copies(head, margins).sigmoid()
    sizes = torch.bincount(sentence, minlength=len(row)).clip(min=1)
    sentences = tokens.new_zeros(len(row)).scatter_add(0, sentence, tokens) / sizes
    if head.features is not None:
        sentences = weigh_sentences(sentences, torch.from_numpy(head.features), layer)
    parts, response = sentences, row
    if head.has_claim is not None:
        has_claim = torch.from_numpy(head.has_claim)
        sentences = torch.where(has_claim, sentences, 1.0)
        parts, response = sentences[has_claim], row[has_claim]
    if faithfulness == "weakest_token":
        return tokens, sentences, _lowest(tokens, row[sentence], count)
    whole = _lowest(parts, response, count)
    if faithfulness == "two_weakest_sentences":
        at_lowest = parts <= whole[response]
        following = _lowest(parts[~at_lowest], response[~at_lowest], count)
        lowest = torch.bincount(response[at_lowest], minlength=count)
        has_next = (lowest == 1) & (torch.bincount(response, minlength=count) > 1)
        whole = whole + (torch.where(has_next, following, whole) - whole) / 3
    return tokens, sentences, whole


def _join_copies(head: HeadLogits, margins: Tensor) -> Tensor:
    """Return the logit of each token."""
    import torch

    count = len(head.sentence)
    if head.token is None or (head.is_evidence is None and len(margins) == count):
        return margins
    token = torch.from_numpy(head.token)
    if head.is_evidence is None:
        return highest(margins, token, count)
    some = torch.from_numpy(head.is_evidence)
    ordinary, gathered = (highest(margins[mask], token[mask], count) for mask in (~some, some))
    windows = torch.bincount(token[~some], minlength=count)
    joined: Tensor = join_evidence(ordinary, gathered, gathered > -torch.inf, windows)
    return joined


def sigmoid(logits: FloatArray) -> FloatArray:
    """Return the probabilities of logits."""
    return np.exp(-np.logaddexp(0.0, -logits))


def highest(margins: Tensor, token: Tensor, count: int) -> Tensor:
    """Return the maximum over each token's copies, -inf without one. *Shapes:* [M] x 2 -> [T]."""
    return margins.new_full((count,), -np.inf).scatter_reduce(0, token, margins, "amax")


def _lowest(parts: Tensor, response: Tensor, count: int) -> Tensor:
    """Return the minimum of the parts of each response, 1 without any. *Shapes:* [P] x 2 -> [B]."""
    return parts.new_ones(count).scatter_reduce(0, response, parts, "amin")


def _renumbered(indices: IntArray, kept: BoolArray) -> IntArray:
    renumbered: IntArray = (np.cumsum(kept) - 1)[indices]
    return renumbered


def _some(values: npt.NDArray[_Kind] | None, chosen: BoolArray) -> npt.NDArray[_Kind] | None:
    return None if values is None else values[chosen]
