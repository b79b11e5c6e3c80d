"""Learned loss weights: the formula by hand, and batches without labels for a head."""

from __future__ import annotations

import math

import pytest
import torch

from trivet.heads.learned_weights import LearnedWeights


def test_the_sum_is_the_one_written_out_by_hand() -> None:
    weights = LearnedWeights(["support", "relevance"])
    with torch.no_grad():
        weights.log_variance["support"].fill_(math.log(4.0))
    total = weights({"support": torch.tensor(2.0), "relevance": torch.tensor(3.0)}).detach()
    assert float(total) == pytest.approx(2.0 / 4.0 + math.log(4.0) / 2 + 3.0)
    assert weights.weights()["support"].item() == pytest.approx(0.25)
    assert weights.weights()["relevance"].item() == 1.0


def test_a_weight_settles_where_its_loss_says() -> None:
    weights = LearnedWeights(["support", "relevance"])
    losses = {"support": torch.tensor(0.5), "relevance": torch.tensor(0.125)}
    steps = torch.optim.Adam(weights.parameters(), lr=0.02)
    for _ in range(600):
        steps.zero_grad()
        weights(losses).backward()
        steps.step()
    # The minimum of exp(-s) * loss + s / 2 is at exp(-s) = 1 / (2 * loss).
    by_head = {head: weight.item() for head, weight in weights.weights().items()}
    assert by_head == pytest.approx({"support": 1.0, "relevance": 4.0}, rel=0.01)


def test_a_head_of_which_nothing_is_known_moves_nothing_but_stays_in_the_graph() -> None:
    weights = LearnedWeights(["support", "relevance"])
    known, unknown = (torch.tensor(value, requires_grad=True) for value in (2.0, 0.0))
    weights({"support": known, "relevance": unknown}).backward()
    moved = [value.grad.item() for _, value in sorted(weights.log_variance.items())]
    assert moved == pytest.approx([0.0, -2.0 + 0.5])
    assert unknown.grad is not None
