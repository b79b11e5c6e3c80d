"""What a context's sentences share with question and response, counted from ids."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.data.overlap import context_overlap
from trivet.data.reading import ReadExample
from trivet.data.tokens import Segment
from trivet.records import ContextSpan

words = st.lists(st.integers(0, 12).map(lambda number: number * 2500), min_size=1, max_size=8)
sentences = st.lists(words, max_size=6)


def segment(numbers: Sequence[int]) -> Segment:
    return Segment(np.asarray(numbers, np.int64), np.zeros((len(numbers), 2), np.int64))


def read_of(context: Sequence[Sequence[int]]) -> ReadExample:
    lengths = [len(sentence) for sentence in context]
    return ReadExample(
        question=segment([]),
        context=segment([word for sentence in context for word in sentence]),
        context_index=np.zeros(sum(lengths), np.int64),
        context_sentence=np.repeat(np.arange(len(context)), lengths),
        context_sentence_spans=tuple(ContextSpan(0, 0, 1) for _ in context),
        response=segment([]),
        response_sentence=np.zeros(0, np.int64),
        response_sentence_spans=(),
        replaced_characters=0,
    )


def overlap(context: Sequence[Sequence[int]], other: Sequence[int]) -> list[float]:
    found = context_overlap(read_of(context), np.asarray(other, np.int64))
    assert found.dtype == np.float32
    return [float(value) for value in found]


def by_hand(context: Sequence[Sequence[int]], other: Sequence[int]) -> list[float]:
    def rarity(some: set[int]) -> float:
        return sum(math.log(1 + word / 1000) for word in some)

    shared = [rarity(set(sentence) & set(other)) for sentence in context]
    most = max(shared, default=0.0)
    each = []
    for sentence, common in zip(context, shared, strict=True):
        held = rarity(set(sentence))
        share = common / held if held else 0.0
        each += [(share + (common / most if most else 0.0)) / 2] * len(sentence)
    return each


@given(sentences, words)
def test_it_is_the_mean_of_two_shares(context: list[list[int]], other: list[int]) -> None:
    found = overlap(context, other)
    assert found == pytest.approx(by_hand(context, other), abs=1e-5)
    assert all(0 <= value <= 1 for value in found)


@given(sentences, words)
def test_repetition_and_order_of_words_change_nothing(
    context: list[list[int]], other: list[int]
) -> None:
    turned = [sentence[::-1] for sentence in context]
    assert overlap(turned, other[::-1] * 2) == pytest.approx(overlap(context, other), abs=1e-6)


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    rare, common, other = 20_000, 1_500, 4_000
    with_rare, with_common = overlap([[rare, other], [common, other]], [rare, common])[::2]
    assert with_rare > with_common > 0


def test_nothing_shared_is_zero_and_everything_is_one() -> None:
    assert overlap([[4000, 5000], [6000]], [7000]) == [0.0, 0.0, 0.0]
    assert overlap([[4000, 5000], [6000]], []) == [0.0, 0.0, 0.0]
    assert overlap([[4000, 5000]], [5000, 4000, 9000]) == [1.0, 1.0]
    assert overlap([], [7000]) == []
