"""Losses against a teacher: least where both agree, each example alike, padding without effect."""

from __future__ import annotations

import torch
from torch import Tensor

from trivet.heads.teacher_loss import class_loss, mark_loss, pair_loss


def gradient(loss: Tensor, logits: Tensor) -> Tensor:
    (found,) = torch.autograd.grad(loss, logits)
    return found


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


def test_marks_are_compared_by_sentence() -> None:
    ours = torch.zeros(1, 3, requires_grad=True)
    teacher = torch.tensor([[4.0, 0.0, -50.0]])
    found = gradient(mark_loss(ours, teacher, torch.tensor([[0.5, 0.5, 0.0]]), torch.ones(1)), ours)
    expected = 0.5 * (0.5 - teacher.sigmoid()) * torch.tensor([[1.0, 1.0, 0.0]])
    torch.testing.assert_close(found, expected)


def test_pairs_of_an_example_share_its_weight_over_all_of_its_windows() -> None:
    ours = torch.zeros(3, 1, 2, requires_grad=True)
    teacher, real = torch.full((3, 1, 2), -3.0), torch.tensor([[[1.0, 1]], [[1.0, 0]], [[0.0, 0]]])
    loss = pair_loss(ours, teacher, real, torch.tensor([0, 0, 1]), torch.tensor([2.0, 5.0]))
    torch.testing.assert_close(loss, 2 * torch.tensor(2.0).log())
    found = gradient(loss, ours)
    torch.testing.assert_close(found, 2 / 3 * (0.5 - teacher.sigmoid()) * real)
