"""The support head's losses, computed by hand, and its weights from an NLI checkpoint."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from trivet.errors import ConfigError
from trivet.heads.support import (
    copy_nli_head,
    entailment_logit,
    opposites_loss,
    token_loss,
    verdict_loss,
    window_loss,
)
from trivet.heads.token_head import TokenHead

ONE = torch.ones(1)


def logits_of(*probs: tuple[float, float, float]) -> Tensor:
    """Return logits whose softmax is ``probs``. *Shape:* [len(probs), 3]."""
    return torch.tensor(probs).log().requires_grad_()


def joined(logits: Tensor, at: Tensor) -> Tensor:
    """Return the maximum margin over the copies of each token."""
    margins = entailment_logit(logits).reshape(at.shape)
    return margins.masked_fill(at < 0, -1e4).amax(-1)


def test_window_loss_by_hand() -> None:
    logits = logits_of((0.5, 0.25, 0.25), (0.2, 0.5, 0.3), (0.1, 0.1, 0.8), (0.9, 0.05, 0.05))
    # Two tokens in two windows: entailed, neutral; contradicted, unknown.
    classes = torch.tensor([[[0, 1], [2, -1]]])
    loss = window_loss(logits.reshape(1, 2, 2, 3), classes, ONE)
    assert loss.item() == pytest.approx(-(2 * math.log(0.5) + math.log(0.8)) / 3)
    loss.backward()
    assert logits.grad is not None
    assert (logits.grad != 0).any(-1).tolist() == [True, True, True, False]


HALF, FIFTH, SURE = (0.5, 0.25, 0.25), (0.2, 0.4, 0.4), (0.98, 0.01, 0.01)


@pytest.mark.parametrize(
    ("copies", "at", "supported", "wanted", "taught"),
    [
        # Towards support only the window that supports most is trained, away from it every one.
        ([FIFTH, HALF], [[3, 9]], [1], [0.5], [False, True]),
        ([FIFTH, HALF], [[3, 9]], [0], [(0.4 * 0.25) ** 0.5], [True, True]),
        # A copy that is not there counts for nothing.
        ([FIFTH, SURE], [[3, -1]], [1], [0.2], [True, False]),
        ([FIFTH, SURE], [[3, -1]], [0], [0.4], [True, False]),
        # The mean over tokens; an unknown token and padding have no gradient.
        ([HALF, FIFTH], [[3], [4]], [1, 0], [0.5, 0.4], [True, True]),
        ([HALF, FIFTH], [[3], [-1]], [-1, -1], [1.0], [False, False]),
    ],
)
def test_token_loss_by_hand(
    copies: list[tuple[float, float, float]],
    at: list[list[int]],
    supported: list[int],
    wanted: list[float],
    taught: list[bool],
) -> None:
    leaf, places = logits_of(*copies), torch.tensor([at])
    logits = leaf.reshape(*places.shape, 3)
    loss = token_loss(logits, places, joined(leaf, places), torch.tensor([supported]), ONE)
    assert loss.item() == pytest.approx(-sum(map(math.log, wanted)) / len(wanted))
    loss.backward()
    assert leaf.grad is not None
    assert (leaf.grad != 0).any(-1).tolist() == taught
    upwards = torch.tensor([known == 1 for known in supported for _ in at[0]])
    down = torch.where(upwards, leaf.grad[:, 0], leaf.grad[:, 2])
    assert (down[torch.tensor(taught)] < 0).all()


def test_verdict_loss_by_hand() -> None:
    faithfulness = torch.tensor([0.8, 0.4, 0.9], requires_grad=True)
    loss = verdict_loss(faithfulness, torch.tensor([1, 0, -1]), torch.tensor([3.0, 1.0, 1.0]))
    assert loss.item() == pytest.approx(-(3 * math.log(0.8) + math.log(0.6)))
    loss.backward()
    assert faithfulness.grad is not None
    assert faithfulness.grad[0] < 0 < faithfulness.grad[1]
    assert faithfulness.grad[2] == 0
    ends = torch.tensor([0.0, 1.0], requires_grad=True)
    loss = verdict_loss(ends, torch.tensor([1, 0]), torch.ones(2))
    loss.backward()
    assert loss.isfinite() and ends.grad is not None and ends.grad.isfinite().all()


LABELS = {"NEUTRAL": 0, "Entailment": 1, "contradiction": 2}


def checkpoint(hidden: int = 4, classes: int = 3) -> dict[str, Tensor]:
    rows = torch.arange(float(classes))
    return {
        "pooler.dense.weight": torch.eye(hidden),
        "pooler.dense.bias": torch.full((hidden,), 0.5),
        "classifier.weight": rows[:, None].expand(classes, hidden).clone(),
        "classifier.bias": rows * 10,
    }


def test_classes_are_found_by_name_never_by_position() -> None:
    head = TokenHead(4, 3, pooled=True)
    copy_nli_head(head, checkpoint(), LABELS)
    assert head.classifier.bias.tolist() == [10.0, 0.0, 20.0]
    assert head.classifier.weight[:, 0].tolist() == [1.0, 0.0, 2.0]
    assert head.dense is not None
    assert head.dense.bias.tolist() == [0.5] * 4


@pytest.mark.parametrize(
    ("change", "labels", "pooled", "message"),
    [
        ({}, {"LABEL_0": 0, "LABEL_1": 1}, True, "'LABEL_0': 0.* has no class entailment, neutral"),
        ({}, {"entailment": 0, "not_entailment": 1}, True, "has no class neutral, contradiction;"),
        ({}, LABELS, False, "the support head was made without a pooled layer"),
        ({"classifier.bias": None}, LABELS, True, r"has no tensor 'classifier\.bias'"),
        ({"pooler.dense.weight": None}, LABELS, True, r"has no tensor 'pooler\.dense\.weight'"),
        ({"pooler.dense.weight": torch.eye(5)}, LABELS, True, r"does not fit.*dense\.weight"),
        ({}, {**LABELS, "contradiction": 3}, True, "names more classes than the 3"),
    ],
    ids=["no-names", "two-classes", "not-pooled", "no-bias", "no-pooler", "width", "number"],
)
def test_a_checkpoint_that_does_not_fit_is_refused_by_name(
    change: dict[str, Tensor | None], labels: dict[str, int], pooled: bool, message: str
) -> None:
    changed = checkpoint() | change
    state = {name: tensor for name, tensor in changed.items() if tensor is not None}
    with pytest.raises(ConfigError, match=f"(?s)encoder.init: nli: .*{message}"):
        copy_nli_head(TokenHead(4, 3, pooled=pooled), state, labels)


def test_right_and_wrong_responses_are_compared_and_each_wrong_one_counts_once() -> None:
    faithfulness = torch.tensor([0.8, 0.5, 0.5, 0.9, 0.5], requires_grad=True)
    pairs = torch.tensor([[0, 2], [1, 2], [3, 4]])
    loss = opposites_loss(faithfulness, pairs, torch.tensor([9.0, 9.0, 2.0, 9.0, 1.0]))
    odds = torch.tensor([4.0, 1.0, 9.0])  # of the right response to the wrong one's
    term = torch.log1p(1 / odds)
    assert loss.item() == pytest.approx(float(2 * (term[0] + term[1]) / 2 + term[2]))
    loss.backward()
    assert faithfulness.grad is not None
    assert faithfulness.grad.sign().tolist() == [-1, -1, 1, -1, 1]
    nothing = opposites_loss(faithfulness, pairs[:0], torch.ones(5))
    assert nothing.item() == 0
