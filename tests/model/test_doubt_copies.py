"""Copied sentences need more support: the truth table and the laws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trivet.model.aggregate import Array, doubt_copies, join

Make = Callable[[Any], Array]
PROBS = st.floats(0, 1, width=32)


@pytest.fixture(params=["numpy", "torch"])
def make(request: pytest.FixtureRequest) -> Make:
    return np.asarray if request.param == "numpy" else torch.tensor


def doubted(support: float, overlap: float, tokens: int = 12) -> float:
    one, other = (np.array([[value]], np.float32) for value in (support, overlap))
    return float(doubt_copies(one, other, np.array([[tokens]]))[0, 0])


def test_a_copy_that_is_not_sure_is_doubted(make: Make) -> None:
    # Logits 3 (sure), 2 and 0; the overlap of a copy, of half a copy and of no copy.
    sure, likely, even = (1 / (1 + np.exp(-logit)) for logit in (3.0, 2.0, 0.0))
    support = make([[0.99, sure, likely, likely, likely, even, 0.0, 1.0]])
    overlap = make([[1.0, 1.0, 0.94, 0.92, 0.9, 1.0, 1.0, 1.0]])
    found = doubt_copies(support, overlap, make([[12] * 8]))
    logits = [float(np.log(one / (1 - one))) for one in found[0, 1:6].tolist()]
    assert logits == pytest.approx([3.0, 2.0 - 6.0, 2.0 - 3.0, 2.0, 0.0 - 18.0], abs=1e-5)
    assert found[0, [0, 4, 7]].tolist() == support[0, [0, 4, 7]].tolist()
    assert 0 <= float(found[0, 6]) < 1e-9
    # Names and phrases, of fewer than twelve tokens.
    assert doubt_copies(support, overlap, make([[11] * 8])).tolist() == support.tolist()


@given(support=PROBS, overlap=PROBS, tokens=st.integers(1, 24))
def test_doubt_only_lowers_and_both_libraries_agree(
    support: float, overlap: float, tokens: int
) -> None:
    found = doubted(support, overlap, tokens)
    assert 0 <= found <= support + 1e-7
    if overlap <= 0.9 or support >= 0.9527 or tokens < 12:
        assert found == support
    one, shared, size = (torch.tensor([[value]]) for value in (support, overlap, tokens))
    other = doubt_copies(one, shared, size)
    assert float(other[0, 0]) == pytest.approx(found, abs=1e-6)


@given(low=PROBS, high=PROBS, overlap=PROBS)
def test_more_support_stays_more_and_more_overlap_is_more_doubt(
    low: float, high: float, overlap: float
) -> None:
    low, high = sorted((low, high))
    assert doubted(low, overlap) <= doubted(high, overlap) + 1e-7
    assert doubted(low, 1.0) <= doubted(low, overlap) + 1e-7


def test_sentences_are_doubted_only_with_overlaps(make: Make) -> None:
    # Three sentences of sixteen, sixteen and two tokens: the second alone is not copied.
    sizes = (16, 16, 2)
    sentence = np.repeat(np.arange(3), sizes)
    pool = (np.arange(3)[:, None] == sentence) / np.array(sizes)[:, None]
    given_probs = {
        "support_probs": make([[1.0, 0.5] * 17]),
        "relevance_probs": None,
        "utilization_probs": None,
        "response_mask": make([[True] * 34]),
        "context_weight": make([[1.0]]),
        "sentence_pool": make([pool.tolist()]),
    }
    plain = join(**given_probs, faithfulness="weakest_sentence")
    assert plain.sentence_support.tolist() == [[0.75, 0.75, 0.75]]
    overlap = make([np.array([1.0, 0.5, 1.0])[sentence].tolist()])
    found = join(**given_probs, faithfulness="weakest_sentence", copied=overlap)
    first, *others = found.sentence_support[0].tolist()
    assert first < 0.001 and others == [0.75, 0.75]
    assert found.faithfulness.tolist() == [first]
    assert found.support_probs.tolist() == plain.support_probs.tolist()
