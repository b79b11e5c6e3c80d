"""A bundle's weights are loaded whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from trivet.model.bundle import WEIGHTS_NAME, read_bundle
from trivet.model.bundle_weights import load_rag_model
from trivet.model.manifest import MANIFEST_NAME, write_manifest
from trivet.records import BundleError


def change_weights(folder: Path, state: dict[str, torch.Tensor]) -> None:
    """Replace the weights and make the manifest say so, as someone who edits a bundle would."""
    (folder / MANIFEST_NAME).unlink()
    save_file(state, folder / WEIGHTS_NAME)
    write_manifest(folder)


def test_a_bundle_becomes_a_model_that_judges(tiny_bundle: Path) -> None:
    model = load_rag_model(read_bundle(tiny_bundle))
    assert not model.training
    state = load_file(tiny_bundle / WEIGHTS_NAME)
    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in state.items())


@pytest.mark.parametrize("head", ["support", "relevance", "utilization"])
def test_a_missing_head_is_named(tiny_bundle: Path, head: str) -> None:
    state = load_file(tiny_bundle / WEIGHTS_NAME)
    change_weights(
        tiny_bundle, {k: v for k, v in state.items() if not k.startswith(f"heads.{head}.")}
    )
    with pytest.raises(BundleError, match=rf"{WEIGHTS_NAME}: has no weights for the {head} head"):
        load_rag_model(read_bundle(tiny_bundle))


def test_a_missing_tensor_is_named(tiny_bundle: Path) -> None:
    state = load_file(tiny_bundle / WEIGHTS_NAME)
    name = "trunk.encoder.encoder.layer.1.output.dense.bias"
    del state[name]
    change_weights(tiny_bundle, state)
    with pytest.raises(BundleError, match=name.replace(".", r"\.")):
        load_rag_model(read_bundle(tiny_bundle))


def test_a_tensor_of_another_shape_is_named(tiny_bundle: Path) -> None:
    state = load_file(tiny_bundle / WEIGHTS_NAME)
    state["heads.support.classifier.bias"] = torch.zeros(4)
    change_weights(tiny_bundle, state)
    with pytest.raises(BundleError, match=r"heads\.support\.classifier\.bias"):
        load_rag_model(read_bundle(tiny_bundle))
