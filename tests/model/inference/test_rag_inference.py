"""The trunk that is exported answers as the trained one, and runs what is shared once."""

from __future__ import annotations

import copy
import logging

import pytest
import torch
import transformers
from torch import nn

from tests.conftest import TINY
from trivet.backends.profiles import Sizes, make_windows
from trivet.errors import WindowError
from trivet.heads import DEFAULT_HEADS
from trivet.model.architecture import TrunkKind
from trivet.model.inference.rag_inference import InferenceTrunk, inference_trunk
from trivet.model.multi_trunk import make_trunk
from trivet.model.rag_model import RagModel, as_tensors
from trivet.model.trunk import Trunk

LENGTH = 40
# Encoders of two layers: run whole once, whole three times, or one layer once and one three times.
LAYERS: dict[TrunkKind, int] = {"shared": 2, "separate": 6, "partial": 4}


def shaken(encoder: transformers.PreTrainedModel, kind: TrunkKind) -> RagModel:
    """Return a model whose every part differs from every other."""
    torch.manual_seed(3)
    model = RagModel(make_trunk(Trunk(copy.deepcopy(encoder)), kind, 1)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


@torch.inference_mode()
@pytest.mark.parametrize("kind", list(LAYERS))
def test_it_answers_as_the_trained_trunk(
    tiny_encoder: transformers.PreTrainedModel, kind: TrunkKind
) -> None:
    if tiny_encoder.config.model_type == "modernbert" and kind == "partial":
        pytest.skip("cannot be split")
    model = shaken(tiny_encoder, kind)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    ours = inference_trunk(model.trunk, LENGTH)
    assert isinstance(ours, InferenceTrunk) and not ours.training
    runs: list[nn.Module] = []
    for module in ours.modules():
        if isinstance(project := getattr(module, "project", None), nn.Linear):
            project.register_forward_hook(lambda module, *_: runs.append(module))
    for sizes in (Sizes(5, LENGTH, 1, 1, 1, 1, 1), Sizes(3, 7, 1, 1, 1, 1, 1)):
        vocab = model.trunk.config.vocab_size
        windows = as_tensors(make_windows(sizes, vocab, seed=2))[:3]
        expected, answers = model.trunk(*windows), ours(*windows)
        for name in DEFAULT_HEADS:
            off = (answers[name] - expected[name]).abs()[windows[1].bool()]
            assert off.max() < 2e-5, (name, sizes)
        assert len(runs) == LAYERS[kind] == len(set(map(id, runs)))
        runs.clear()
    if kind != "shared":
        assert not torch.allclose(answers["support"], answers["relevance"], atol=1e-2)
    assert all(tensor.equal(before[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize(
    ("encoder", "kind"),
    [*(("deberta", kind) for kind in LAYERS), ("mpnet", "shared"), ("modernbert", "shared")],
)
def test_the_window_it_was_made_for_is_held(
    request: pytest.FixtureRequest, encoder: str, kind: TrunkKind
) -> None:
    ours = inference_trunk(shaken(request.getfixturevalue(f"tiny_{encoder}"), kind).trunk, 16)
    ids = torch.full((1, 17), 7)
    with pytest.raises(WindowError, match="17 positions exceeds the 16"):
        ours(ids, torch.ones_like(ids), torch.zeros_like(ids))


@pytest.mark.parametrize("kind", list(LAYERS))
def test_what_has_no_module_of_ours_stays_with_the_library(
    caplog: pytest.LogCaptureFixture, kind: TrunkKind
) -> None:
    config = transformers.RobertaConfig(vocab_size=60, **TINY)
    trunk = make_trunk(Trunk(transformers.RobertaModel(config).eval()), kind, 1)
    with caplog.at_level(logging.INFO):
        assert inference_trunk(trunk, LENGTH) is trunk
    assert "there is none for roberta" in caplog.text
