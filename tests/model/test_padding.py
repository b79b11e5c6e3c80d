"""Every padding pattern there is: no answer turns to NaN in bf16, and in fp32 none changes."""

from __future__ import annotations

import copy

import pytest
import torch
import transformers

from trivet.model.inference.layer import Form
from trivet.model.inference.rag_inference import inference_trunk
from trivet.model.trunk import Trunk

POSITIONS = 8


def every_pattern() -> tuple[torch.Tensor, ...]:
    """Windows with every mask that 8 positions can have, empty and with holes included."""
    numbers = torch.arange(2**POSITIONS)
    mask = (numbers[:, None] >> torch.arange(POSITIONS)) & 1
    ids = (torch.arange(mask.numel()).view_as(mask) * 7) % 50 + 5
    return ids * mask, mask, (torch.arange(POSITIONS) > 4).long() * mask


@pytest.mark.parametrize("form", ["portable", "attention"])
def test_no_pattern_turns_to_nan_in_bf16(
    tiny_encoder: transformers.PreTrainedModel, form: Form
) -> None:
    ours = inference_trunk(Trunk(copy.deepcopy(tiny_encoder)), 64, form).to(torch.bfloat16)
    ids, mask, segments = every_pattern()
    with torch.inference_mode():
        assert torch.isfinite(ours(ids, mask, segments)["support"]).all()
        # Short among long: a row of one token, and an empty one, padded to a wide batch.
        for real in (0, 1, 33):
            lengths = torch.tensor([64, real])[:, None]
            wide = (torch.arange(64) < lengths).long()
            assert torch.isfinite(ours(wide * 7, wide, wide * 0)["support"]).all(), real


@pytest.mark.parametrize("form", ["portable", "attention"])
def test_every_pattern_is_the_librarys_in_fp32(
    tiny_encoder: transformers.PreTrainedModel, form: Form
) -> None:
    trunk = Trunk(tiny_encoder).eval()
    ours = inference_trunk(trunk, POSITIONS, form)
    windows = every_pattern()
    with torch.inference_mode():
        off = (ours(*windows)["support"] - trunk(*windows)["support"]).abs()
    assert off[windows[1].bool()].max() < 1e-5


def test_what_stands_under_the_mask_is_not_read(tiny_encoder: transformers.PreTrainedModel) -> None:
    ours = inference_trunk(Trunk(tiny_encoder).eval(), POSITIONS)
    ids, mask, segments = every_pattern()
    with torch.inference_mode():
        clean = ours(ids, mask, segments)["support"]
        other = ours(ids + 11 * (1 - mask), mask, segments)["support"]
    # The padded rows themselves may answer anything.
    torch.testing.assert_close(clean[mask.bool()], other[mask.bool()], atol=0, rtol=0)
