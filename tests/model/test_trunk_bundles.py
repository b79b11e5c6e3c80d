"""Bundles of every kind of trunk: their descriptions, and training that starts from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.models import initial_model
from trivet.bundle.bundle import add_files, read_bundle, write_bundle
from trivet.bundle.info import BundleInfo
from trivet.bundle.weights import load_rag_model
from trivet.data.tokenization import SegmentTokenizer
from trivet.errors import BundleError, ConfigError
from trivet.model.architecture import TrunkKind


@pytest.fixture
def bundle_of(
    bert_checkpoint: Path, tmp_path: Path, tiny_info: Callable[[SegmentTokenizer], BundleInfo]
) -> Callable[..., Path]:
    """Return a function: write a bundle whose trunk is of a kind."""

    def write(kind: TrunkKind, prefix_attention: bool | None = None, **info: Any) -> Path:
        torch.manual_seed(0)
        model, tokenizer = initial_model(
            str(bert_checkpoint),
            "plain",
            "weakest_sentence",
            trunk=kind,
            shared_layers=1,
            prefix_attention=prefix_attention,
        )
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        changed = {"trunk": kind, "shared_layers": model.trunk.shared_layers} | info
        changed["prefix_attention"] = model.prefix_attention
        folder = tmp_path / kind
        write_bundle(
            folder,
            tiny_info(tokenizer).model_copy(update=changed),
            tokenizer.to_json(),
            weights=model.state_dict(),
            architecture=model.architecture(),
        )
        return folder

    return write


@pytest.mark.parametrize("kind", ["shared", "separate", "partial"])
def test_a_bundle_gives_its_own_kind_back(bundle_of: Callable[..., Path], kind: TrunkKind) -> None:
    folder = bundle_of(kind, prefix_attention=False)
    model, _ = initial_model(
        str(folder), "bundle", "weakest_token", trunk=kind, shared_layers=1, granularity="example"
    )
    assert (model.trunk.kind, model.granularity) == (kind, "example")
    state = load_file(folder / "model.safetensors")
    torch.testing.assert_close(dict(model.state_dict()), state, atol=0, rtol=0)


@pytest.mark.parametrize("kind", ["separate", "partial"])
def test_a_shared_trunk_is_copied_for_every_head(
    bundle_of: Callable[..., Path], kind: TrunkKind
) -> None:
    folder = bundle_of("shared")
    before = load_rag_model(read_bundle(folder))
    model, _ = initial_model(str(folder), "bundle", "weakest_sentence", trunk=kind, shared_layers=1)
    assert (before.trunk.kind, model.trunk.kind) == ("shared", kind)
    ids = torch.arange(14).reshape(2, 7) + 5
    windows = (ids, torch.ones_like(ids), torch.zeros_like(ids))
    with torch.inference_mode():
        torch.testing.assert_close(model.eval().read(*windows), before.read(*windows))
    torch.testing.assert_close(model.heads.state_dict(), before.heads.state_dict(), atol=0, rtol=0)


@pytest.mark.parametrize(
    ("has", "asked", "layers", "message"),
    [
        ("separate", "shared", None, r"is separate, from which a shared one cannot start"),
        ("separate", "partial", 1, r"is separate, from which a partial \(shared_layers: 1\)"),
        ("partial", "shared", None, r"is partial \(shared_layers: 1\), from which a shared one"),
        ("partial", "separate", None, r"from which a separate one cannot start; ask for the same"),
        ("partial", "partial", 2, r"from which a partial \(shared_layers: 2\) one cannot start"),
    ],
)
def test_what_was_trained_apart_cannot_be_joined(
    bundle_of: Callable[..., Path],
    has: TrunkKind,
    asked: TrunkKind,
    layers: int | None,
    message: str,
) -> None:
    folder = str(bundle_of(has))
    with pytest.raises(ConfigError, match=rf"encoder\.trunk: .*{has}.*{message}"):
        initial_model(folder, "bundle", "weakest_sentence", trunk=asked, shared_layers=layers)


def test_a_description_of_something_else_is_refused(weights_bundle: Path) -> None:
    described = json.loads((weights_bundle / "encoder.json").read_text())
    for changed, message in (
        (described | {"mood": 1}, r"must hold .*pooled_support.*, and nothing else"),
        (
            described | {"encoder": described["encoder"] | {"hidden_size": 3}},
            r"hidden_size is 3, but bundle",
        ),
        ({"encoder": described["encoder"]}, r"must hold"),
    ):
        add_files(weights_bundle, {"encoder.json": json.dumps(changed).encode()})
        with pytest.raises(BundleError, match=message):
            load_rag_model(read_bundle(weights_bundle))
