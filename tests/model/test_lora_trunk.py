"""Adapters of a frozen encoder: one set for each head, and merged into weights at the end."""

from __future__ import annotations

import copy

import pytest
import torch
import transformers

from trivet.backends.example_windows import Sizes, make_windows
from trivet.model.lora_trunk import LoraTrunk
from trivet.model.multi_trunk import SeparateTrunk
from trivet.model.rag_model import RagModel, as_tensors
from trivet.model.trunk import Trunk
from trivet.model.trunk_kinds import make_trunk


@pytest.fixture
def inputs(tiny_encoder: transformers.PreTrainedModel) -> tuple[torch.Tensor, ...]:
    vocab = int(tiny_encoder.config.vocab_size)
    return as_tensors(make_windows(Sizes(2, 9, 1, 1, 1, 1, 1), vocab, seed=1))[:3]


def test_adapters_start_at_the_encoder_and_learn_for_their_head_alone(
    tiny_encoder: transformers.PreTrainedModel, inputs: tuple[torch.Tensor, ...]
) -> None:
    plain = Trunk(copy.deepcopy(tiny_encoder)).eval()
    trunk = make_trunk(Trunk(copy.deepcopy(tiny_encoder)), "lora", lora_rank=2).eval()
    assert isinstance(trunk, LoraTrunk)
    expected = plain.encode(*inputs)
    for states in trunk(*inputs).values():
        torch.testing.assert_close(states, expected)
    frozen = [p for p in trunk.parameters() if not p.requires_grad]
    assert len(frozen) == len(list(plain.parameters())), "the weights are held once"
    adapters = {n: p for n, p in trunk.named_parameters() if p.requires_grad}
    assert adapters and all("lora_" in name for name in adapters)
    trunk(*inputs)["relevance"].square().sum().backward()
    moved = {name.split(".")[1] for name, each in adapters.items() if each.grad is not None}
    assert moved == {"relevance"}
    assert all(each.grad is None for each in frozen)


@torch.no_grad()
def test_the_merged_trunk_answers_as_the_adapters_do(
    tiny_encoder: transformers.PreTrainedModel, inputs: tuple[torch.Tensor, ...]
) -> None:
    torch.manual_seed(0)
    heads = ("support", "utilization")
    trunk = make_trunk(Trunk(copy.deepcopy(tiny_encoder)), "lora", heads=heads, lora_rank=2).eval()
    assert isinstance(trunk, LoraTrunk)
    for parameter in (each for each in trunk.parameters() if each.requires_grad):
        parameter.normal_(0, 0.2)
    expected = trunk(*inputs)
    assert not torch.allclose(expected["support"], expected["utilization"], atol=1e-2)
    merged = trunk.merged()
    assert type(merged) is SeparateTrunk and merged.kind == "separate"
    for name, states in merged(*inputs).items():
        torch.testing.assert_close(states, expected[name], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(trunk(*inputs), expected)  # unchanged by the merge
    # Its weights are those of a stored model with one encoder a head.
    model = RagModel(merged, heads=heads)
    stored = RagModel.from_architecture(model.architecture())
    stored.load_state_dict(model.state_dict())
