"""Trunks with private parts: equal at the start, separate afterwards, built again."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable

import pytest
import torch
import transformers
from torch import nn

from tests.conftest import RELATIVE, TINY
from tests.model.windows import three
from trivet.model.architecture import Architecture, TrunkKind
from trivet.model.multi_trunk import AnyTrunk, PartialTrunk, make_trunk
from trivet.model.rag_model import RagModel
from trivet.model.trunk import Hidden, Trunk

Make = Callable[[TrunkKind], AnyTrunk]
SMALL = TINY | {"vocab_size": 60, "num_hidden_layers": 3}
CONVOLUTION = RELATIVE | {"share_att_key": False, "conv_kernel_size": 3, "conv_act": "gelu"}


@pytest.fixture(params=["shared", "separate", "partial"])
def kind(request: pytest.FixtureRequest) -> TrunkKind:
    name: TrunkKind = request.param
    return name


@pytest.fixture(params=["tiny_bert", "tiny_deberta", "tiny_mpnet"])
def tiny_encoder(request: pytest.FixtureRequest) -> transformers.PreTrainedModel:
    """Return each tiny encoder that can be split."""
    encoder: transformers.PreTrainedModel = request.getfixturevalue(request.param)
    return encoder


@pytest.fixture
def make(tiny_encoder: transformers.PreTrainedModel) -> Make:
    """Return a function: a trunk of a kind, from a copy of one encoder."""
    return lambda kind: make_trunk(Trunk(copy.deepcopy(tiny_encoder)), kind, 1).eval()


@torch.inference_mode()
def test_all_kinds_start_from_the_same_weights(make: Make, kind: TrunkKind) -> None:
    reference, trunk = make("shared"), make(kind)
    assert isinstance(reference, Trunk)
    expected, mask = reference.encode(*three(9)), three(9)[1].bool()
    for name, states in trunk(*three(9)).items():
        torch.testing.assert_close(states[mask], expected[mask], msg=name)


def test_heads_share_what_the_kind_says(make: Make) -> None:
    def count(parameters: Iterable[nn.Parameter]) -> int:
        return sum(parameter.numel() for parameter in parameters)

    shared, separate, partial = make("shared"), make("separate"), make("partial")
    whole = count(shared.parameters())
    assert whole == count(shared.shared_parameters())
    assert count(separate.parameters()) == 3 * whole and separate.shared_parameters() == []
    assert isinstance(partial, PartialTrunk)
    top = count(partial.top("support").parameters())
    assert count(partial.parameters()) == whole + 2 * top
    assert count(partial.shared_parameters()) == whole - top


def test_a_head_teaches_its_own_part_and_the_shared_one(make: Make, kind: TrunkKind) -> None:
    trunk = make(kind)
    hidden: Hidden = trunk(*three(9))
    hidden["relevance"].pow(2).sum().backward()
    taught = {
        name
        for name, parameter in trunk.named_parameters()
        if parameter.grad is not None and parameter.grad.abs().sum() > 0
    }
    assert not [name for name in taught if name.split(".")[1] in ("support", "utilization")]
    shared = {id(parameter) for parameter in trunk.shared_parameters()}
    names = {name for name, parameter in trunk.named_parameters() if id(parameter) in shared}
    assert bool(names & taught) == (kind != "separate")
    assert any(name.split(".")[1] == "relevance" for name in taught) == (kind != "shared")


@torch.inference_mode()
def test_what_is_shared_is_run_once(make: Make, kind: TrunkKind) -> None:
    trunk = make(kind)
    first = trunk.stem if isinstance(trunk, PartialTrunk) else trunk
    lowest = next(module for name, module in first.named_modules() if name.endswith("layer.0"))
    runs: list[int] = []
    lowest.register_forward_hook(lambda *_: runs.append(1))
    trunk(*three(9))
    assert len(runs) == 1


@torch.inference_mode()
def test_the_architecture_builds_the_same_kind(make: Make, kind: TrunkKind) -> None:
    described = Architecture(
        faithfulness="weakest_token", dropout=0.2, pooled_support=True, granularity="example"
    )
    model = RagModel(make(kind), described).eval()
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.add_(0.01 * (number % 7))
    architecture = Architecture.from_json(json.loads(json.dumps(model.architecture().to_json())))
    assert architecture.trunk == kind
    assert architecture.shared_layers == (1 if kind == "partial" else None)
    again = RagModel.from_architecture(architecture).eval()
    again.load_state_dict(model.state_dict(), strict=True)
    assert again.architecture() == architecture
    torch.testing.assert_close(again.read(*three(9)), model.read(*three(9)))


@torch.inference_mode()
@pytest.mark.parametrize(
    "config",
    [
        transformers.RobertaConfig(**SMALL, pad_token_id=1),
        transformers.DebertaV2Config(**SMALL, **CONVOLUTION),
        transformers.DebertaV2Config(**SMALL, relative_attention=False, pos_att_type=None),
    ],
    ids=["roberta", "deberta with a convolution", "deberta without relative positions"],
)
@pytest.mark.parametrize("shared_layers", [1, 2])
def test_other_encoders_of_these_families_split_too(
    config: transformers.PreTrainedConfig, shared_layers: int
) -> None:
    torch.manual_seed(0)
    whole = Trunk(transformers.AutoModel.from_config(config)).eval()
    split = make_trunk(copy.deepcopy(whole), "partial", shared_layers).eval()
    mask = three(9)[1].bool()
    for states in split(*three(9)).values():
        torch.testing.assert_close(states[mask], whole.encode(*three(9))[mask])
