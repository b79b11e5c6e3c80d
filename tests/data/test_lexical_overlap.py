"""Lexical overlaps of an example's sentences, counted from ids."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.examples import Sentences, make_tokenized
from trivet.data.lexical_overlap import Overlaps, count_overlaps, rank_contexts
from trivet.data.tokenization import FloatArray

words = st.lists(st.integers(0, 12).map(lambda number: number * 2500), min_size=1, max_size=8)
sentences = st.lists(words, max_size=6)
FERRY, RED, OLD = 20_000, 15_000, 16_000


def joined(parts: Sentences) -> list[int]:
    return [word for part in parts for word in part]


def overlaps(
    context: Sentences, response: Sentences = (), question: Sequence[int] = ()
) -> Overlaps:
    return count_overlaps(make_tokenized(question, [context], response))


def of_sentences(per_token: FloatArray, parts: Sentences) -> list[float]:
    """Take one number a sentence, which all of its tokens have."""
    sentence = np.repeat(np.arange(len(parts)), list(map(len, parts)))
    by_sentence = [set(per_token[sentence == number].tolist()) for number in range(len(parts))]
    assert all(len(values) == 1 for values in by_sentence)
    return [values.pop() for values in by_sentence]


def rarity(some: set[int]) -> float:
    return sum(math.log(1 + word / 1000) for word in some)


def of_context(context: Sentences, parts: Sentences) -> list[float]:
    sentences_with = Counter(word for sentence in context for word in set(sentence))

    def weight(some: set[int]) -> float:
        return sum(rarity({word}) / sentences_with[word] for word in some)

    def shares_of_max(other: set[int]) -> list[float]:
        shared = [weight(set(sentence) & other) for sentence in context]
        most = max(shared, default=0.0)
        return [common / most if most else 0.0 for common in shared]

    everything = set(joined(parts))
    together = shares_of_max(everything)
    apart = [shares_of_max(set(part)) for part in parts]
    means = []
    for n, sentence in enumerate(context):
        held = weight(set(sentence))
        share = weight(set(sentence) & everything) / held if held else 0.0
        best = max((part[n] for part in apart), default=0.0)
        means.append((share + together[n] + best) / 3)
    return means


def of_response(context: Sentences, parts: Sentences) -> list[float]:
    shares = []
    for part in parts:
        most = max((rarity(set(sentence) & set(part)) for sentence in context), default=0.0)
        shares.append(most / rarity(set(part)) if rarity(set(part)) else 0.0)
    return [(share + sum(shares) / len(shares)) / 2 for share in shares]


@given(sentences, sentences, words)
def test_overlaps_are_what_is_counted_by_hand(
    context: list[list[int]], response: list[list[int]], question: list[int]
) -> None:
    counted = overlaps(context, response, question)
    for values, by_hand, parts in (
        (counted.question, of_context(context, [question]), context),
        (counted.response, of_context(context, response), context),
        (counted.context, of_response(context, response), response),
    ):
        assert values.dtype == np.float32
        assert of_sentences(values, parts) == pytest.approx(by_hand, abs=1e-5)
        assert ((values >= 0) & (values <= 1)).all()


@given(sentences, sentences, st.integers(1, 4))
def test_sources_are_the_sentences_that_share_most(
    context: list[list[int]], response: list[list[int]], number: int
) -> None:
    sources = count_overlaps(make_tokenized([], [context], response), number).sources
    assert sources.shape == (len(response), min(number, len(context)))
    sentences_with = Counter(word for sentence in context for word in set(sentence))
    for part, named in zip(response, sources.tolist(), strict=True):
        shared = [
            sum(rarity({word}) / sentences_with[word] for word in set(sentence) & set(part))
            for sentence in context
        ]
        assert len(set(named)) == len(named)
        best = sorted(shared, reverse=True)[: len(named)]
        assert [shared[n] for n in named] == pytest.approx(best)


def test_contexts_that_share_most_come_first_and_the_response_counts_twice() -> None:
    contexts = [[[OLD]], [[FERRY]], [[RED]], [[OLD]]]
    read = make_tokenized([FERRY], contexts, [[RED]])
    # 2 log(16) > log(21) > 0, and of equals the first comes first.
    assert rank_contexts(read).tolist() == [2, 1, 0, 3]
