"""A tiny bundle with weights, as a training run would leave it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from trivet.model.bundle import (
    BundleInfo,
    EncoderInfo,
    SpecialTokenIds,
    Thresholds,
    TrainingInfo,
    WindowInfo,
    write_bundle,
)
from trivet.model.initial import initial_model


@pytest.fixture
def tiny_bundle(bert_checkpoint: Path, tmp_path: Path) -> Path:
    """Write a bundle with the weights of ``bert_checkpoint`` and random heads."""
    torch.manual_seed(0)
    model, tokenizer = initial_model(str(bert_checkpoint), "plain", "weakest_sentence")
    special = tokenizer.special
    info = BundleInfo(
        package_version="0",
        name="tiny",
        encoder=EncoderInfo(
            model_type="bert", hidden_size=16, layers=2, source="tiny", licence="none"
        ),
        window=WindowInfo(size=64),
        faithfulness="weakest_sentence",
        heads=("support", "relevance", "utilization"),
        thresholds=Thresholds(adherence=0.5, sentence=0.5, span=0.5),
        special_tokens=SpecialTokenIds(cls=special.cls, sep=special.sep, pad=special.pad),
        training=TrainingInfo(command="none", date="2000-01-01", data=()),
    )
    folder = tmp_path / "bundle"
    write_bundle(
        folder,
        info,
        tokenizer.to_json(),
        weights=model.state_dict(),
        encoder_config=model.architecture(),
    )
    return folder
