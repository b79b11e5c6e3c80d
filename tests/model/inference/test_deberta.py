"""Our DeBERTa answers as the library's does, on every real token, whatever is padded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import pytest
import torch
import transformers
from transformers.models.deberta_v2.modeling_deberta_v2 import build_relative_position

from trivet.model.inference.deberta import InferenceDeberta, distance_slots
from trivet.model.inference.layer import Form
from trivet.model.inference.rag_inference import inference_trunk
from trivet.model.trunk import Trunk
from trivet.records import WindowError

VOCAB = 60
MAX_LENGTH = 64
# Where tables of 256 buckets end, where buckets begin to widen, and where tiles of engines end.
LENGTHS = (1, 2, 3, 64, 127, 128, 129, 255, 256, 257, 383, 511, 512, 513, 767, 1023, 1024)
# A two-layer DeBERTa-v3. With 16 buckets distances share rows from 8 on, within any window here.
SETTINGS: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 512,
    "type_vocab_size": 0,
    "relative_attention": True,
    "position_buckets": 16,
    "max_relative_positions": -1,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "pad_token_id": 0,
}


def make_trunk(**overrides: Any) -> Trunk:
    """A trunk with weights so wide that attention is far from uniform."""
    encoder = transformers.DebertaV2Model(transformers.DebertaV2Config(**(SETTINGS | overrides)))
    torch.manual_seed(3)
    with torch.no_grad():
        for name, parameter in encoder.named_parameters():
            parameter.normal_(1.0 if "LayerNorm.weight" in name else 0.0, 0.2)
    return Trunk(encoder).eval()


def inputs(lengths: list[int], width: int) -> tuple[torch.Tensor, ...]:
    """Rows of ``lengths`` real tokens, padded to ``width``."""
    mask = (torch.arange(width) < torch.tensor(lengths)[:, None]).long()
    ids = (torch.arange(len(lengths) * width).view(-1, width) * 7 + 5) % VOCAB
    segments = (torch.arange(width) > width // 2).long().expand_as(mask)
    return ids * mask, mask, segments * mask


def largest_difference(
    trunk: Trunk, ours: torch.nn.Module, given: tuple[torch.Tensor, ...]
) -> float:
    with torch.inference_mode():
        off = (ours(*given) - trunk.encode(*given)).abs()
    return float(off[given[1].bool()].max())


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"position_buckets": 32},
        {"position_buckets": -1},
        {"position_buckets": -1, "max_relative_positions": 20},
        {"share_att_key": False},
        {"pos_att_type": ["c2p"]},
        {"pos_att_type": ["p2c"]},
        {"pos_att_type": []},
        {"norm_rel_ebd": "none"},
        {"position_biased_input": True},
        {"type_vocab_size": 2},
        {"type_vocab_size": 1},
        {"embedding_size": 8},
        {"relative_attention": False, "pos_att_type": None},
        {"hidden_act": "relu"},
    ],
    ids=str,
)
def test_equals_the_library(overrides: dict[str, Any]) -> None:
    trunk = make_trunk(**overrides)
    for form in get_args(Form):
        ours = InferenceDeberta(trunk.encoder, MAX_LENGTH, form).eval()
        for lengths, width in (([1], 1), ([2, 1], 2), ([33, 17, 1], 33), ([64, 40], 64)):
            off = largest_difference(trunk, ours, inputs(lengths, width))
            assert off < 1e-5, (form, lengths, width)


@pytest.mark.parametrize("form", get_args(Form))
@pytest.mark.parametrize(
    "lengths",
    [
        pytest.param(LENGTHS, id="edges"),
        pytest.param(range(1, 1025), id="every", marks=pytest.mark.slow),
    ],
)
def test_equals_the_library_up_to_1024_positions(lengths: Sequence[int], form: Form) -> None:
    trunk = make_trunk(position_buckets=256)
    ours = InferenceDeberta(trunk.encoder, 1024, form).eval()
    for length in lengths:
        given = inputs([length, length // 2, 1], length)
        assert largest_difference(trunk, ours, given) < 1e-5, length


def test_positions_are_read_at_all() -> None:
    trunk = make_trunk()
    ours = InferenceDeberta(trunk.encoder, MAX_LENGTH).eval()
    ours.load_state_dict(ours.state_dict() | {"slot": ours.state_dict()["slot"].flip(0)})
    assert largest_difference(trunk, ours, inputs([40], 40)) > 1e-3


def test_the_length_it_was_made_for_changes_nothing() -> None:
    trunk, given = make_trunk(), inputs([30, 7], 30)
    long = InferenceDeberta(trunk.encoder, 200).eval()
    assert largest_difference(trunk, long, given) < 1e-5


def test_slots_are_the_librarys() -> None:
    config = transformers.DebertaV2Config(**(SETTINGS | {"position_buckets": 256}))
    slots = distance_slots(config, 512)
    ends = torch.zeros(1, 512, 1)
    library = build_relative_position(ends, ends, bucket_size=256, max_position=512)[0]
    between = torch.arange(512)[:, None] - torch.arange(512)[None, :] + 511
    assert slots[between].equal((library + 256).clamp(0, 511))


def test_tables_hold_only_what_can_be_reached() -> None:
    trunk = make_trunk(position_buckets=128)
    short = InferenceDeberta(trunk.encoder, 16).eval()
    assert short.state_dict()["layers.0.position_keys"].shape == (2, 8, 31)
    assert largest_difference(trunk, short, inputs([16, 3], 16)) < 1e-5


def test_padding_changes_nothing() -> None:
    ours = InferenceDeberta(make_trunk().encoder, MAX_LENGTH).eval()
    with torch.inference_mode():
        alone, padded = ours(*inputs([9], 9)), inputs([9], 64)
        padded[0][:, :9] = inputs([9], 9)[0]
        among = ours(*padded)
    assert torch.allclose(alone, among[:, :9], atol=1e-5)


def test_a_longer_window_is_refused() -> None:
    ours = InferenceDeberta(make_trunk().encoder, 16)
    with pytest.raises(WindowError, match="17 positions exceeds the 16"):
        ours(*inputs([17], 17))


def test_what_it_cannot_do_stays_with_the_library() -> None:
    trunk = make_trunk(conv_kernel_size=3, conv_act="gelu")
    assert inference_trunk(trunk, MAX_LENGTH) is trunk
    with pytest.raises(ValueError, match="conv_kernel_size"):
        InferenceDeberta(trunk.encoder, MAX_LENGTH)


def test_the_trained_trunk_is_left_as_it_was() -> None:
    trunk = make_trunk()
    before = {name: tensor.clone() for name, tensor in trunk.state_dict().items()}
    InferenceDeberta(trunk.encoder, MAX_LENGTH)
    assert all(tensor.equal(before[name]) for name, tensor in trunk.state_dict().items())
