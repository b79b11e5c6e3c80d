"""Lexical overlap: how many words the sentences of an example share.

A small encoder compares words poorly and never sees the sentences of another window. Both can be
counted from the ids before the example is cut into windows: how many of a sentence's words occur
again, and whether that is many compared with the example's other sentences. Word overlap is an old
and strong baseline for selecting sentences (Yih et al., ACL 2013, P13-1171).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from trivet.data.tokenization import FloatArray, IntArray, TokenizedExample

# Vocabularies list their pieces roughly by frequency, the common ones first (in WordPiece after
# unused entries and single characters, 2,000 in BERT), so by Zipf's law the logarithm of an id
# tells how rare its piece is. Below about this id it tells nothing.
_COMMON = 1000

_TIE = 1e-6  # weight of the question between sentences that share the same with the response
_TINY = np.finfo(np.float64).tiny  # least denominator, so that 0 / 0 is 0


class Overlaps(NamedTuple):
    """Lexical overlaps in [0, 1], equal for all tokens of a sentence.

    For a sentence of the contexts, compared with another text, it is the mean of three shares:

    - of its words, those that occur in the text;
    - the words shared with the text, relative to the sentence that shares most with it;
    - the words shared with one sentence of the text, relative to the sentence that shares most
      with that one; the largest of these shares. It finds the source of a short sentence even if
      a long sentence shares more with the whole text. A question counts as one sentence.

    Each word is weighted by its rarity, divided by the number of context sentences it occurs in.

    For a sentence of the response it is the mean of two shares: of its words, weighted by rarity
    alone, the share that a single sentence of the contexts contains; and the mean of that share
    over all sentences of the response.
    """

    question: FloatArray  # overlap of context tokens with the question, [C]
    response: FloatArray  # overlap of context tokens with the response, [C]
    context: FloatArray  # overlap of response tokens with the contexts, [R]
    # context sentences that share most with each response sentence, best first; of equals, those
    # that share most with the question, [S, at most ``sources``]
    sources: IntArray


def count_overlaps(tokenized: TokenizedExample, sources: int = 0) -> Overlaps:
    """Count the words that an example's sentences share, weighted by rarity.

    ``sources`` is the number of context sentences to name for each response sentence.
    """
    answer, sentence_of = tokenized.response.ids, tokenized.context_sentence
    if not len(sentence_of):
        nothing = np.zeros(0, dtype=np.float32)
        none = np.zeros((len(tokenized.response_sentence_spans), 0), dtype=np.int64)
        return Overlaps(nothing, nothing, np.zeros(len(answer), dtype=np.float32), none)
    # The words of the contexts, each once per sentence.
    width = int(tokenized.context.ids.max()) + 1
    sentence, ids = np.divmod(distinct(sentence_of * width + tokenized.context.ids), width)
    rarity = np.log1p(ids / _COMMON)
    weight = rarity / np.bincount(ids)[ids]
    count = int(sentence[-1]) + 1
    total = np.maximum(np.bincount(sentence, weight, minlength=count), _TINY)

    asked = np.isin(ids, tokenized.question.ids, kind="table")
    by_question = np.bincount(sentence[asked], weight[asked], minlength=count)
    relative = by_question / max(by_question.max(), _TINY)
    question = (by_question / total + relative + relative) / 3

    answered = np.flatnonzero(np.isin(ids, answer, kind="table"))
    sentence, ids = sentence[answered], ids[answered]
    rarity, weight = rarity[answered], weight[answered]
    by_response = np.bincount(sentence, weight, minlength=count)
    best = np.zeros(count)
    context = np.zeros(len(tokenized.response_sentence_spans))
    named = np.zeros((len(context), min(sources, count)), dtype=np.int64)
    if len(answer):
        cuts = np.flatnonzero(np.diff(tokenized.response_sentence)) + 1
        for number, words in enumerate(np.split(answer, cuts)):
            at = np.flatnonzero(np.isin(ids, words, kind="table"))
            shared = np.bincount(sentence[at], weight[at], minlength=count)
            np.maximum(best, shared / max(shared.max(), _TINY), out=best)
            most = np.bincount(sentence[at], rarity[at], minlength=count).max()
            context[number] = most / max(np.log1p(distinct(words) / _COMMON).sum(), _TINY)
            if sources:
                order = np.argsort(-(shared + _TIE * relative), kind="stable")
                named[number] = order[:sources]
        context = (context + context.mean()) / 2
    relative = by_response / max(by_response.max(), _TINY)
    response = (by_response / total + relative + best) / 3
    return Overlaps(
        question=question.astype(np.float32)[sentence_of],
        response=response.astype(np.float32)[sentence_of],
        context=context.astype(np.float32)[tokenized.response_sentence],
        sources=named,
    )


def rank_contexts(tokenized: TokenizedExample) -> IntArray:
    """Rank the contexts by the words that they share with question and response.

    A word weighs its rarity, divided by the number of contexts it occurs in; one of the response
    counts twice as much as one of the question.

    Returns:
        The rank of each token's context, 0 for the one that shares most; of equals the one that is
        read first comes first. *Shape:* [C].
    """
    width = int(tokenized.context.ids.max(initial=0)) + 1
    ends = np.diff(tokenized.context_index, prepend=tokenized.context_index[:1]) != 0
    passage = np.cumsum(ends)  # number of each token's context among those that are read
    pairs = distinct(passage * width + tokenized.context.ids)
    context, ids = np.divmod(pairs, width)
    weight = np.log1p(ids / _COMMON) / np.bincount(ids)[ids]
    asked = np.isin(ids, tokenized.question.ids, kind="table")
    answered = np.isin(ids, tokenized.response.ids, kind="table")
    order = np.argsort(-np.bincount(context, weight * (2 * answered + asked)), kind="stable")
    ranks: IntArray = np.argsort(order)[passage]
    return ranks


def pair_overlaps(tokenized: TokenizedExample) -> Iterator[FloatArray]:
    """Yield for each response sentence the share of its words that each context sentence contains.

    A word weighs log(1 + n / k), where k of the n context sentences contain it. *Shape:* [X] each.
    """
    count = len(tokenized.context_sentence_spans)
    sentence, ids = np.zeros((2, 0), dtype=np.int64)
    if count:
        width = int(tokenized.context.ids.max()) + 1
        pairs = distinct(tokenized.context_sentence * width + tokenized.context.ids)
        sentence, ids = np.divmod(pairs, width)
    own_sentence = tokenized.response_sentence
    for number in range(len(tokenized.response_sentence_spans)):
        words = distinct(tokenized.response.ids[own_sentence == number])
        shared = np.flatnonzero(np.isin(ids, words, kind="table"))
        index = np.searchsorted(words, ids[shared])
        weight = np.log1p(count / np.maximum(np.bincount(index, minlength=len(words)), 1))
        totals = np.bincount(sentence[shared], weight[index], minlength=count)
        yield (totals / max(weight.sum(), _TINY)).astype(np.float32)


def distinct(numbers: IntArray) -> IntArray:
    """Return the distinct numbers, sorted; much faster than numpy's ``unique``."""
    ordered = np.sort(numbers)
    differs = ordered[1:] != ordered[:-1]
    return ordered[np.flatnonzero(np.concatenate([[True], differs])[: len(ordered)])]
