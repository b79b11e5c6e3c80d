"""Losses of the context heads, and against a teacher: who counts, and what has no gradient."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from trivet.heads.losses import (
    class_loss,
    gradient_cosines,
    sentence_cross_entropy,
    share_error,
    similarity_error,
)

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
    value = loss(logits, marks, weight, torch.ones(3))
    assert value.item() == pytest.approx(2 * math.log(2))
    value.backward()
    assert logits.grad is not None
    assert (logits.grad != 0).tolist() == [[True, True, False], [False] * 3, [True, False, True]]


def test_the_error_of_a_share_is_squared_weighted_and_blind_to_the_unknown() -> None:
    shares = torch.tensor([0.5, 0.9, 0.2], requires_grad=True)
    true = torch.tensor([0.1, float("nan"), 0.3])
    error = share_error(shares, true, torch.tensor([1.0, 1.0, 2.0]))
    assert error.item() == pytest.approx(0.16 + 2 * 0.01)
    error.backward()
    assert shares.grad is not None and torch.isfinite(shares.grad).all() and shares.grad[1] == 0


def gradient(loss: Tensor, logits: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(loss, logits)
    return gradient


def test_the_gradient_is_zero_where_both_agree_and_only_there() -> None:
    torch.manual_seed(0)
    ours = torch.randn(2, 3, 2, 3, requires_grad=True)
    shown = torch.tensor([[[1, 1], [1, 0], [0, 0]], [[1, 0], [1, 0], [1, 0]]]) > 0
    weight = torch.tensor([1.0, 2.0])
    same = gradient(class_loss(ours, ours.detach(), shown, weight), ours)
    assert float(same.abs().max()) < 1e-6
    other = gradient(class_loss(ours, torch.randn(2, 3, 2, 3), shown, weight), ours)
    assert torch.equal(other.abs().sum(-1) > 0, shown)


def test_classes_weigh_each_example_alike() -> None:
    logits, teacher = torch.zeros(2, 4, 1, 3), torch.zeros(2, 4, 1, 3)
    shown = torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0]])[..., None] > 0
    loss = class_loss(logits, teacher, shown, torch.tensor([1.0, 3.0]))
    torch.testing.assert_close(loss, 4 * torch.tensor(3.0).log())


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
    parameter = nn.Parameter(torch.tensor([5.0]))
    losses = {
        "support": along(shared, 1.0, 0.0) + parameter.sum(),
        "relevance": along(shared, 2.0, 0.0),
    }
    cosine = gradient_cosines(losses, [shared, parameter])["support_relevance"]
    assert cosine.item() == pytest.approx(1.0)
    apart = {"support": parameter.sum(), "relevance": along(shared, 2.0, 0.0)}
    assert gradient_cosines(apart, [shared, parameter]) == {}
    without_loss = {"support": along(shared, 1.0, 0.0), "relevance": along(shared, 0.0, 0.0)}
    assert gradient_cosines(without_loss, [shared]) == {}


def test_the_error_of_a_similarity_is_that_of_its_cosine_and_blind_to_the_unknown() -> None:
    logits = torch.tensor([[-3.0, 5.0, 1.0], [9.0, 9.0, 9.0]], requires_grad=True)
    cosine = torch.tensor([[0.0, 1.0, 0.0], [float("nan")] * 3])
    weight = torch.tensor([[0.25, 0.25, 0.5], [0.3, 0.3, 0.4]])
    error = similarity_error(logits, cosine, weight, torch.tensor([2.0, 1.0]))
    assert error.item() == pytest.approx(2 * 0.5 * 0.25)
    error.backward()
    assert logits.grad is not None
    assert (logits.grad != 0).tolist() == [[False, False, True], [False] * 3]
