"""A tiny bundle with weights, as a training run would leave it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from trivet.data.tokens import SegmentTokenizer
from trivet.model.bundle import BundleInfo, write_bundle
from trivet.model.initial import initial_model


@pytest.fixture
def tiny_bundle(
    bert_checkpoint: Path, tmp_path: Path, tiny_info: Callable[[SegmentTokenizer], BundleInfo]
) -> Path:
    """Write a bundle with the weights of ``bert_checkpoint`` and random heads."""
    torch.manual_seed(0)
    model, tokenizer = initial_model(str(bert_checkpoint), "plain", "weakest_sentence")
    folder = tmp_path / "bundle"
    write_bundle(
        folder,
        tiny_info(tokenizer),
        tokenizer.to_json(),
        weights=model.state_dict(),
        encoder_config=model.architecture(),
    )
    return folder
