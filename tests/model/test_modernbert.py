"""ModernBERT in training and for export: the library's answers, positions and local attention."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import get_args

import pytest
import torch
import transformers
from torch import Tensor

from trivet.errors import ConfigError
from trivet.model.inference.layer import Form
from trivet.model.inference.modernbert import InferenceModernBert
from trivet.model.multi_trunk import make_trunk
from trivet.model.rag_model import RagModel
from trivet.model.trunk import Trunk
from trivet.training.initialization import initial_model


def inputs(length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return ids, mask and segments of three rows, two of them padded."""
    mask = (torch.arange(length) < torch.tensor([length, length // 2 + 1, 1])[:, None]).long()
    ids = (torch.arange(3 * length).view(-1, length) * 7 + 5) % 50 + 5
    return ids * mask, mask, (torch.arange(length) > length // 2).long() * mask


@torch.inference_mode()
@pytest.mark.parametrize("length", [1, 5, 6, 40, 130])
def test_every_form_equals_the_library(
    tiny_modernbert: transformers.ModernBertModel, length: int
) -> None:
    ids, mask, segments = inputs(length)
    library = copy.deepcopy(tiny_modernbert)
    library.set_attn_implementation("eager")
    expected = library(input_ids=ids, attention_mask=mask).last_hidden_state
    trunk = Trunk(tiny_modernbert).eval()
    forms = [InferenceModernBert(trunk.encoder, 130, form).eval() for form in get_args(Form)[:2]]
    found = [trunk.encode(ids, mask, segments), *(form(ids, mask, segments) for form in forms)]
    for hidden in found:
        assert (hidden - expected)[mask.bool()].abs().max() < 1e-5


@torch.inference_mode()
def test_the_last_layer_sees_four_tokens_on_each_side(
    tiny_modernbert: transformers.ModernBertModel,
) -> None:
    ids, mask, segments = inputs(40)
    tiny_modernbert.get_parameter("layers.0.attn.Wo.weight").zero_()  # the second attends
    trunk = Trunk(tiny_modernbert).eval()
    before = trunk.encode(ids, mask, segments)
    ids[0, 20] = 9
    changed = (trunk.encode(ids, mask, segments) - before)[0].abs().amax(-1) > 1e-6
    assert changed.nonzero().flatten().tolist() == list(range(16, 25))


@torch.inference_mode()
def test_a_checkpoint_is_loaded_and_built_again_from_its_description(
    tiny_modernbert: transformers.ModernBertModel, wordpiece_file: Path, tmp_path: Path
) -> None:
    tiny_modernbert.save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes(wordpiece_file.read_bytes())
    plain = Trunk.from_pretrained(str(tmp_path), attention_dropout=0.3)
    assert plain.config.attention_dropout == 0.3
    model, _ = initial_model(str(tmp_path), "plain", "weakest_sentence", exact_match=True)
    again = RagModel.from_architecture(model.eval().architecture()).eval()
    again.load_state_dict(model.state_dict())
    given = inputs(30)
    torch.testing.assert_close(again.read(*given), model.read(*given))


def test_its_layers_cannot_be_shared_in_part(tiny_modernbert: transformers.ModernBertModel) -> None:
    with pytest.raises(ConfigError, match="this is modernbert; choose shared or separate"):
        make_trunk(Trunk(tiny_modernbert), "partial", 1)
