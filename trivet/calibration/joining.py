"""Logits of labelled examples, joined as in the model over ragged examples, and back.

Backwards, a loss of joined probabilities becomes one of the logits, which fits need.

Letters: M copies of tokens in windows, T tokens, S sentences, B examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from trivet.measures.curves import FloatArray, IntArray
from trivet.measures.intervals import BoolArray
from trivet.model.aggregate import NO_LAYER, SentenceLayer, join_evidence, weigh_sentences
from trivet.model.architecture import Reduction

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


class Joined:
    """The probabilities ``found`` that logits of the positive class mean, perhaps with a layer."""

    def __init__(
        self,
        head: HeadLogits,
        margins: FloatArray,
        faithfulness: Reduction,
        layer: SentenceLayer = NO_LAYER,
    ) -> None:
        """Join logits of the copies [M], or of the tokens [T] if there is no evidence window."""
        self._head, self._count = head, len(margins)
        self._by_token = faithfulness == "weakest_token"
        tokens = sigmoid(self._join_copies(margins))
        self._sizes = np.bincount(head.sentence, minlength=len(head.row)).clip(min=1)
        sums = np.bincount(head.sentence, weights=tokens, minlength=len(head.row))
        sentences = sums / self._sizes
        if head.features is not None:
            sentences = weigh_sentences(sentences, head.features, layer)
        if head.has_claim is not None:
            sentences = np.where(head.has_claim, sentences, 1.0)
        parts, place = sentences, head.row
        self._part = np.arange(len(sentences))  # token or sentence of each part
        if self._by_token:
            parts, place = tokens, head.row[head.sentence]
            self._part = np.arange(len(tokens))
        elif head.has_claim is not None:
            self._part = np.flatnonzero(head.has_claim)
            parts, place = parts[self._part], place[self._part]
        whole, self._lowest = _lowest(parts, place, len(head.weight))
        self._has_next = np.zeros(len(whole), dtype=np.bool_)
        self._next = self._lowest
        if faithfulness == "two_weakest_sentences":
            at_lowest = parts <= whole[place]
            above = np.flatnonzero(~at_lowest)
            following, index = _lowest(parts[above], place[above], len(whole))
            self._next = np.append(above, -1)[index]
            lowest = np.bincount(place[at_lowest], minlength=len(whole))
            self._has_next = (lowest == 1) & (np.bincount(place, minlength=len(whole)) > 1)
            whole = whole + (np.where(self._has_next, following, whole) - whole) / 3
        self.found = Probabilities(tokens, sentences, whole)

    def slopes(self, of_sentences: FloatArray, of_responses: FloatArray) -> FloatArray:
        """Return the derivative of a loss by the logits, without a layer.

        *Shapes:* its derivatives by the sentences, [S], and by the responses, [B] -> as the logits.
        """
        head, tokens = self._head, self.found.tokens
        of_parts = np.zeros(len(self._part) + 1)  # the last one: of responses without a part
        following = np.where(self._has_next, of_responses / 3, 0.0)
        np.add.at(of_parts, self._lowest, of_responses - following)
        np.add.at(of_parts, self._next, following)
        of_sentences, of_tokens = of_sentences.copy(), np.zeros(len(tokens))
        target = of_tokens if self._by_token else of_sentences
        target[self._part] += of_parts[:-1]
        if head.has_claim is not None:
            of_sentences[~head.has_claim] = 0.0
        of_tokens = of_tokens + (of_sentences / self._sizes)[head.sentence]
        of_logits: FloatArray = of_tokens * tokens * (1 - tokens)
        if self._copies is None:
            return of_logits
        found = np.zeros(self._count)
        for copies, weight in self._copies:
            real = copies >= 0
            found[copies[real]] = (of_logits * weight)[real]
        return found

    def _join_copies(self, margins: FloatArray) -> FloatArray:
        """Return the logit of each token, and note the copies that decide it and their weights."""
        head, count = self._head, len(self._head.sentence)
        self._copies: tuple[tuple[IntArray, FloatArray], ...] | None = None
        if head.token is None or (head.is_evidence is None and len(margins) == count):
            return margins
        if head.is_evidence is None:
            top, at = highest(margins, head.token, count)
            self._copies = ((at, np.ones(count)),)
            return top
        (ordinary, first), (gathered, second) = (
            _highest_of(margins, head.token, np.flatnonzero(some), count)
            for some in (~head.is_evidence, head.is_evidence)
        )
        windows = np.bincount(head.token[~head.is_evidence], minlength=count)
        has_both = gathered > -np.inf
        share = join_evidence(np.zeros(count), np.ones(count), has_both, windows)
        self._copies = (first, 1 - share), (second, share)
        joined: FloatArray = join_evidence(ordinary, gathered, has_both, windows)
        return joined


def sigmoid(logits: FloatArray) -> FloatArray:
    """Return the probabilities of logits."""
    return np.exp(-np.logaddexp(0.0, -logits))


def highest(margins: FloatArray, token: IntArray, count: int) -> tuple[FloatArray, IntArray]:
    """Return the maximum over each token's copies, -inf without one, and the copy it is of, or -1.

    *Shapes:* [M], [M] -> [T], [T].
    """
    top = np.full(count, -np.inf)
    np.maximum.at(top, token, margins)
    best = np.flatnonzero(margins == top[token])
    at = np.full(count, -1, dtype=np.int64)
    at[token[best]] = best
    return top, at


def _highest_of(
    margins: FloatArray, token: IntArray, some: IntArray, count: int
) -> tuple[FloatArray, IntArray]:
    """Return ``highest`` of some copies, by their numbers among all."""
    top, at = highest(margins[some], token[some], count)
    return top, np.append(some, -1)[at]


def _lowest(parts: FloatArray, place: IntArray, count: int) -> tuple[FloatArray, IntArray]:
    """Return the minimum of the parts of each response, and its part; 1 and -1 without any.

    *Shapes:* [P], [P] -> [B], [B].
    """
    bottom, at = highest(-parts, place, count)
    return np.where(at < 0, 1.0, -bottom), at


def _renumbered(place: IntArray, kept: BoolArray) -> IntArray:
    found: IntArray = (np.cumsum(kept) - 1)[place]
    return found


def _some(values: npt.NDArray[_Kind] | None, chosen: BoolArray) -> npt.NDArray[_Kind] | None:
    return None if values is None else values[chosen]
