"""Cosines between the heads' gradients, on two weights where they can be seen."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from trivet.heads.gradient_cosine import gradient_cosines


@pytest.fixture
def shared() -> nn.Parameter:
    return nn.Parameter(torch.tensor([1.0, 2.0]))


def along(shared: Tensor, *direction: float) -> Tensor:
    return (shared * torch.tensor(direction)).sum()


def test_each_pair_has_the_cosine_of_its_directions(shared: nn.Parameter) -> None:
    losses = {
        "support": along(shared, 1.0, 0.0),
        "relevance": along(shared, 3.0, 3.0),
        "utilization": along(shared, -2.0, 0.0),
    }
    cosines = {pair: value.item() for pair, value in gradient_cosines(losses, [shared]).items()}
    assert cosines == pytest.approx(
        {
            "support_relevance": math.sqrt(0.5),
            "support_utilization": -1.0,
            "relevance_utilization": -math.sqrt(0.5),
        }
    )
    assert shared.grad is None
    torch.stack(list(losses.values())).sum().backward()
    assert shared.grad is not None, "the graph is still there for the step"


def test_only_what_every_head_reaches_and_heads_with_a_loss_count(shared: nn.Parameter) -> None:
    own = nn.Parameter(torch.tensor([5.0]))
    losses = {"support": along(shared, 1.0, 0.0) + own.sum(), "relevance": along(shared, 2.0, 0.0)}
    assert gradient_cosines(losses, [shared, own])["support_relevance"].item() == pytest.approx(1.0)
    apart = {"support": own.sum(), "relevance": along(shared, 2.0, 0.0)}
    assert gradient_cosines(apart, [shared, own]) == {}
    without_loss = {"support": along(shared, 1.0, 0.0), "relevance": along(shared, 0.0, 0.0)}
    assert gradient_cosines(without_loss, [shared]) == {}
