"""How many words the sentences of an example share: contexts with the question and the response.

A small encoder hardly compares words by itself, and never sees the sentences of another window.
Both can be counted from the ids before anything is cut: how much of a sentence is found again, and
whether that is much beside the example's other sentences. Word overlap is an old and hard baseline
for picking sentences (Yih et al., ACL 2013, P13-1171).

Letters: C context tokens, R response tokens, W words of the contexts, each once a sentence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trivet.data.segment_tokenizer import FloatArray, IntArray
from trivet.data.tokenization import TokenizedExample

# Vocabularies list their pieces about in the order of how common they are, the common ones first
# (WordPiece's after unused entries and single characters, of which BERT has 2,000), so an id says
# how rare its piece is; by Zipf's law its logarithm does. Below about this id it says nothing.
_COMMON = 1000

_TINY = np.finfo(np.float64).tiny  # under a fraction: nothing over nothing is 0

_Floats = npt.NDArray[np.float64]


class Overlaps(NamedTuple):
    """Shares in [0, 1], the same for all tokens of a sentence.

    Of a context's sentence it is the mean of three shares: of its words, those that the other text
    holds; the same words beside those of the sentence that shares most with the text; and beside
    those of the sentence that shares most with one sentence of it, where that is largest. So what a
    short sentence was made of is found although a long one has its words elsewhere. A question is
    one sentence. Words count by their rarity, divided by how many of the contexts' sentences hold
    them.

    Of a response's sentence it is the mean of two: of its words, by their rarity alone, the share
    that a single sentence of the contexts holds; and the mean of that over the response.

    Attributes:
        question: Of context tokens with the question. *Shape:* [C].
        response: Of context tokens with the response. *Shape:* [C].
        context: Of response tokens with the contexts. *Shape:* [R].
    """

    question: FloatArray
    response: FloatArray
    context: FloatArray


class _Words(NamedTuple):
    """Words of the contexts, each once a sentence.

    Attributes:
        sentence: The context sentence that holds it. *Shape:* [W].
        ids: Its token id. *Shape:* [W].
        rarity: How rare it is in the language. *Shape:* [W].
        weight: The same, divided by how many of the contexts' sentences hold it. *Shape:* [W].
        sentences: How many the contexts have.
    """

    sentence: IntArray
    ids: IntArray
    rarity: _Floats
    weight: _Floats
    sentences: int

    def shared(self, other: IntArray) -> _Words:
        """Keep the words that stand among other ids."""
        at = np.flatnonzero(np.isin(self.ids, other, kind="table"))
        sentence, ids, rarity, weight, sentences = self
        return _Words(sentence[at], ids[at], rarity[at], weight[at], sentences)

    def weights(self) -> _Floats:
        """Add up each sentence's weights. *Shape:* [sentences]."""
        return self._by_sentence(self.weight)

    def rarities(self) -> _Floats:
        """Add up each sentence's rarities. *Shape:* [sentences]."""
        return self._by_sentence(self.rarity)

    def _by_sentence(self, values: _Floats) -> _Floats:
        sums = np.bincount(self.sentence, values, minlength=self.sentences)
        return sums.astype(np.float64, copy=False)


def count_overlaps(read: TokenizedExample) -> Overlaps:
    """Count the words that an example's sentences share; each counts by how rare it is."""
    if not len(read.context):
        nothing = np.zeros(0, dtype=np.float32)
        return Overlaps(nothing, nothing, np.zeros(len(read.response), dtype=np.float32))
    words = _words_of(read)
    answered = words.shared(read.response.ids)
    held, of_response = words.weights(), answered.weights()
    of_question = words.shared(read.question.ids).weights()
    best = np.zeros(words.sentences)
    found = np.zeros(len(read.response_sentence_spans))
    for number, own in enumerate(_sentences(read.response.ids, read.response_sentence)):
        shared = answered.shared(own)
        np.maximum(best, _beside_the_most(shared.weights()), out=best)
        found[number] = shared.rarities().max() / max(_rarity(_distinct(own)).sum(), _TINY)

    def overlap(shared: _Floats, best: _Floats) -> FloatArray:
        share = shared / np.maximum(held, _TINY)
        mean: _Floats = (share + _beside_the_most(shared) + best) / 3
        return mean.astype(np.float32)[read.context_sentence]

    return Overlaps(
        question=overlap(of_question, _beside_the_most(of_question)),
        response=overlap(of_response, best),
        context=_half_of_all(found).astype(np.float32)[read.response_sentence],
    )


def _words_of(read: TokenizedExample) -> _Words:
    width = int(read.context.ids.max()) + 1
    sentence, ids = np.divmod(_distinct(read.context_sentence * width + read.context.ids), width)
    rarity = _rarity(ids)
    return _Words(sentence, ids, rarity, rarity / np.bincount(ids)[ids], int(sentence[-1]) + 1)


def _distinct(numbers: IntArray) -> IntArray:
    """Return what stands among numbers, sorted; numpy's `unique` is far slower."""
    ordered: IntArray = np.sort(numbers)
    return ordered[np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))]


def _rarity(ids: IntArray) -> _Floats:
    rarity: _Floats = np.log1p(ids / _COMMON)
    return rarity


def _sentences(ids: IntArray, sentence: IntArray) -> list[IntArray]:
    """Cut ids where the number of their sentence changes; nothing of nothing."""
    return np.split(ids, np.flatnonzero(np.diff(sentence)) + 1) if len(ids) else []


def _beside_the_most(shared: _Floats) -> _Floats:
    """Divide by the largest; all are 0 where it is."""
    share: _Floats = shared / max(shared.max(), _TINY)
    return share


def _half_of_all(shares: _Floats) -> _Floats:
    """Move each share half the way to their mean."""
    return (shares + shares.mean()) / 2 if len(shares) else shares
