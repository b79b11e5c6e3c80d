"""A head over single tokens, and the sum over examples that every loss uses."""

from __future__ import annotations

import pytest
import torch

from trivet.heads.token_head import sum_of_means


def test_a_long_response_counts_as_much_as_a_short_one() -> None:
    loss = torch.tensor([[1.0, 1.0, 1.0, 1.0], [5.0, 9.0, 9.0, 9.0]])
    known = torch.tensor([[1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]])
    assert sum_of_means(loss, known, torch.ones(2)).item() == pytest.approx(1 + 5)
    weighted = sum_of_means(loss, known, torch.tensor([3.0, 1.0]))
    assert weighted.item() == pytest.approx(3 * 1 + 5)
    alone = sum_of_means(loss[:1], known[:1], torch.tensor([3.0]))
    assert alone.item() == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("known", "expected"),
    [([[0.5, 0.25], [0.0, 0.0]], (0.5 * 2 + 0.25 * 5) / 0.75), ([[0.0, 0.0], [0.0, 0.0]], 0.0)],
)
def test_the_unknown_is_left_out(known: list[list[float]], expected: float) -> None:
    loss = torch.tensor([[2.0, 5.0], [9.0, 9.0]], requires_grad=True)
    total = sum_of_means(loss, torch.tensor(known), torch.ones(2))
    assert total.item() == pytest.approx(expected)
    total.backward()
    assert loss.grad is not None
    assert torch.equal(loss.grad != 0, torch.tensor(known) != 0)
