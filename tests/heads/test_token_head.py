"""A head over single tokens, and the sum over examples that every loss uses."""

from __future__ import annotations

import pytest
import torch

from trivet.heads.token_head import TokenHead, sum_of_means


def test_each_position_is_judged_by_itself() -> None:
    torch.manual_seed(0)
    head = TokenHead(4, 3, pooled=True).eval()
    hidden = torch.randn(2, 5, 4)
    logits = head(hidden)
    assert logits.shape == (2, 5, 3)
    torch.testing.assert_close(logits[1, 3], head(hidden[1, 3]))


def test_pooled_is_a_dense_layer_and_a_gelu() -> None:
    head = TokenHead(2, 1, pooled=True).eval()
    assert head.dense is not None
    with torch.no_grad():
        head.dense.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
        head.dense.bias.zero_()
        head.classifier.weight.fill_(1.0)
        head.classifier.bias.zero_()
    hidden = torch.tensor([[0.7, -1.3]])
    assert head(hidden).item() == pytest.approx(torch.nn.functional.gelu(hidden).sum().item())
    assert TokenHead(2, 1).dense is None


def test_half_precision_is_judged_in_single() -> None:
    head = TokenHead(4, 1)
    assert head(torch.ones(2, 4, dtype=torch.bfloat16)).dtype == torch.float32


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
