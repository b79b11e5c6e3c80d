"""Our DeBERTa answers as the library's does, on every real token, whatever is padded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import pytest
import torch
import transformers

from tests.conftest import RELATIVE, TINY
from tests.model.windows import padded
from trivet.model.inference.deberta import InferenceDeberta
from trivet.model.inference.layer import Form
from trivet.model.inference.rag_inference import inference_trunk
from trivet.model.trunk import Trunk

VOCAB = 60
MAX_LENGTH = 64
# Where tables of 256 buckets end, where buckets begin to widen, and where tiles of engines end.
LENGTHS = (1, 2, 3, 64, 127, 128, 129, 255, 256, 257, 383, 511, 512, 513, 767, 1023, 1024)


def make_trunk(**overrides: Any) -> Trunk:
    """Return a two-layer DeBERTa-v3, its weights so wide that attention is far from uniform."""
    settings = TINY | RELATIVE | {"vocab_size": VOCAB} | overrides
    encoder = transformers.DebertaV2Model(transformers.DebertaV2Config(**settings))
    torch.manual_seed(3)
    with torch.no_grad():
        for name, parameter in encoder.named_parameters():
            parameter.normal_(1.0 if "LayerNorm.weight" in name else 0.0, 0.2)
    return Trunk(encoder).eval()


def largest_difference(
    trunk: Trunk, ours: torch.nn.Module, windows: tuple[torch.Tensor, ...]
) -> float:
    with torch.inference_mode():
        off = (ours(*windows) - trunk.encode(*windows)).abs()
    return float(off[windows[1].bool()].max())


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
            off = largest_difference(trunk, ours, padded(lengths, width))
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
        windows = padded([length, length // 2, 1], length)
        assert largest_difference(trunk, ours, windows) < 1e-5, length


def test_tables_hold_only_what_can_be_reached() -> None:
    trunk = make_trunk(position_buckets=128)
    short = InferenceDeberta(trunk.encoder, 16).eval()
    assert short.state_dict()["layers.0.position_keys"].shape == (2, 8, 31)
    assert largest_difference(trunk, short, padded([16, 3], 16)) < 1e-5


def test_what_it_cannot_do_stays_with_the_library() -> None:
    trunk = make_trunk(conv_kernel_size=3, conv_act="gelu")
    assert inference_trunk(trunk, MAX_LENGTH) is trunk
