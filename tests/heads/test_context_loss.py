"""The losses of the two context heads: by hand, each sentence once, unknown untouched."""

from __future__ import annotations

import math

import pytest
import torch

from trivet.heads.context_loss import sentence_cross_entropy, share_error

loss = sentence_cross_entropy


def logit(probability: float) -> float:
    return math.log(probability / (1 - probability))


def test_each_sentence_counts_once() -> None:
    # A sentence of one token, and one of two.
    logits = torch.tensor([[logit(0.8), logit(0.6), logit(0.3)]])
    marks = torch.tensor([[1, 0, 1]])
    weight = torch.tensor([[0.5, 0.25, 0.25]])
    wanted = -(0.5 * math.log(0.8) + 0.25 * math.log(0.4) + 0.25 * math.log(0.3))
    assert loss(logits, marks, weight, torch.ones(1)).item() == pytest.approx(wanted)
    assert loss(logits, marks, weight, torch.tensor([3.0])).item() == pytest.approx(3 * wanted)


def test_padding_and_unknown_labels_have_no_gradient() -> None:
    logits = torch.zeros(3, 3, requires_grad=True)
    # Padding in the first, nothing known of the second, one token unknown in the third.
    marks = torch.tensor([[1, 0, -1], [-1, -1, -1], [1, -1, 1]])
    weight = torch.tensor([[0.5, 0.5, 0.0], [0.4, 0.3, 0.3], [0.4, 0.3, 0.3]])
    found = loss(logits, marks, weight, torch.ones(3))
    assert found.item() == pytest.approx(2 * math.log(2))
    found.backward()
    assert logits.grad is not None
    assert (logits.grad != 0).tolist() == [[True, True, False], [False] * 3, [True, False, True]]


def test_the_error_of_a_share_is_squared_weighted_and_blind_to_the_unknown() -> None:
    shares = torch.tensor([0.5, 0.9, 0.2], requires_grad=True)
    true = torch.tensor([0.1, float("nan"), 0.3])
    error = share_error(shares, true, torch.tensor([1.0, 1.0, 2.0]))
    assert error.item() == pytest.approx(0.16 + 2 * 0.01)
    error.backward()
    assert shares.grad is not None and torch.isfinite(shares.grad).all() and shares.grad[1] == 0
