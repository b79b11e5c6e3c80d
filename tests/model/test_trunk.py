"""The trunk ignores padding, does not overflow, and is rebuilt from its description."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from tests.conftest import TINY
from tests.model.windows import three
from trivet.errors import ConfigError, WindowError
from trivet.model.trunk import Trunk, check_window, describe_encoder


@pytest.fixture
def trunk(tiny_encoder: transformers.PreTrainedModel) -> Trunk:
    return Trunk(tiny_encoder)


@torch.inference_mode()
def test_our_mask_gives_the_librarys_answer(tiny_encoder: transformers.PreTrainedModel) -> None:
    library = copy.deepcopy(tiny_encoder)
    trunk = Trunk(tiny_encoder)
    ids, mask, segments = three(9)
    kinds = {"token_type_ids": segments} if trunk.encoder.config.model_type == "bert" else {}
    theirs = library(input_ids=ids, attention_mask=mask, **kinds).last_hidden_state
    real = mask.bool()
    ours = trunk.encode(ids, mask, segments)
    torch.testing.assert_close(ours[real], theirs[real], atol=1e-5, rtol=1e-5)


def test_positions_that_are_counted_from_behind_the_padding_are_fewer() -> None:
    small = TINY | {"vocab_size": 20, "max_position_embeddings": 66, "pad_token_id": 1}
    config = transformers.RobertaConfig(**small)
    trunk = Trunk(transformers.RobertaModel(config, add_pooling_layer=False).eval())
    check_window(trunk.config, 64)
    ids = torch.full((1, 64), 7)
    assert trunk.encode(ids, torch.ones_like(ids), torch.zeros_like(ids)).isfinite().all()
    with pytest.raises(WindowError, match="exceeds the 64 positions"):
        check_window(trunk.config, 65)


@torch.inference_mode()
def test_a_checkpoint_is_read_without_its_pooler(bert_checkpoint: Path) -> None:
    trunk = Trunk.from_pretrained(str(bert_checkpoint)).eval()
    reference = transformers.BertModel.from_pretrained(bert_checkpoint).eval()
    ids, mask, segments = three(9)
    theirs = reference(input_ids=ids, attention_mask=mask, token_type_ids=segments)
    real = mask.bool()
    ours = trunk.encode(ids, mask, segments)[real]
    torch.testing.assert_close(ours, theirs.last_hidden_state[real], atol=1e-5, rtol=1e-5)
    assert not [name for name, _ in trunk.named_parameters() if "pooler" in name]
    # Nothing of the machine that made a bundle stands in it.
    assert str(bert_checkpoint) not in json.dumps(describe_encoder(trunk.config))


def test_weights_that_a_checkpoint_lacks_are_not_filled_at_random(
    bert_checkpoint: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "torn"
    shutil.copytree(bert_checkpoint, folder)
    state = load_file(folder / "model.safetensors")
    kept = {name: tensor for name, tensor in state.items() if "layer.1.output.dense" not in name}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=r"lacks 2 tensors .*layer\.1\.output\.dense\.bias"):
        Trunk.from_pretrained(str(folder))
