"""MPNet in training and for export: the library's answers, positions and gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
import torch
import transformers
from torch import Tensor

from trivet.errors import WindowError
from trivet.model.inference.layer import Form
from trivet.model.inference.mpnet import InferenceMpnet
from trivet.model.rag_model import RagModel
from trivet.model.trunk import Trunk
from trivet.training.initialization import initial_model

# Around the edges of the buckets: 8, where they begin to widen, and 128, where they end.
LENGTHS = (1, 2, 8, 9, 17, 91, 128, 130, 200)


def inputs(length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return ids, mask and segments of three rows, two of them padded."""
    mask = (torch.arange(length) < torch.tensor([length, length // 2 + 1, 1])[:, None]).long()
    ids = (torch.arange(3 * length).view(-1, length) * 7 + 5) % 50 + 5
    segments = (torch.arange(length) > length // 2).long().expand_as(mask)
    # Id 1 is the library's padding.
    return torch.where(mask > 0, ids, 1), mask, segments * mask


@pytest.fixture
def trunk(tiny_mpnet: transformers.MPNetModel) -> Trunk:
    return Trunk(copy.deepcopy(tiny_mpnet)).eval()


@torch.inference_mode()
@pytest.mark.parametrize("length", LENGTHS)
def test_every_form_equals_the_library(
    tiny_mpnet: transformers.MPNetModel, trunk: Trunk, length: int
) -> None:
    ids, mask, segments = inputs(length)
    expected = tiny_mpnet(input_ids=ids, attention_mask=mask).last_hidden_state
    every: list[Callable[..., Tensor]] = [trunk.encode]
    every += [InferenceMpnet(trunk.encoder, 200, form).eval() for form in get_args(Form)]
    for ours in every:
        off = (ours(ids, mask, segments) - expected)[mask.bool()].abs()
        assert off.max() < 1e-5, ours


def test_the_training_module_has_the_librarys_gradients(
    tiny_mpnet: transformers.MPNetModel, trunk: Trunk
) -> None:
    ids, mask, segments = inputs(40)
    theirs = tiny_mpnet(input_ids=ids, attention_mask=mask).last_hidden_state
    for hidden in (theirs, trunk.encode(ids, mask, segments)):
        (hidden.pow(3) * mask[..., None]).sum().backward()
    expected = dict(tiny_mpnet.named_parameters())
    for name, parameter in trunk.encoder.named_parameters():
        if "relative_attention_bias" in name:
            assert parameter.grad is None
        else:
            torch.testing.assert_close(
                parameter.grad, expected[name].grad, atol=2e-3, rtol=1e-3, msg=name
            )


@torch.inference_mode()
def test_distances_are_read_at_all(trunk: Trunk) -> None:
    given = inputs(40)
    before = trunk.encode(*given)
    table = trunk.get_parameter("encoder.encoder.relative_attention_bias.weight")
    table.copy_(table.flip(0))
    assert (trunk.encode(*given) - before)[given[1].bool()].abs().max() > 1e-3


def test_a_longer_window_is_refused(trunk: Trunk) -> None:
    with pytest.raises(WindowError, match=r"513 tokens\) exceeds the 512 positions"):
        trunk.check_window(513)
    with pytest.raises(WindowError, match="17 positions exceeds the 16"):
        InferenceMpnet(trunk.encoder, 16)(*inputs(17))


def test_the_dropout_of_attention_is_for_training_alone(trunk: Trunk) -> None:
    given = inputs(20)
    assert trunk.config.attention_probs_dropout_prob > 0
    assert trunk.encode(*given).equal(trunk.encode(*given))
    for layer in trunk.train().get_submodule("encoder.encoder.layer").children():
        layer.get_submodule("attention.dropout").eval()
        layer.get_submodule("output").eval()
    trunk.get_submodule("encoder.embeddings").eval()
    assert not trunk.encode(*given).equal(trunk.encode(*given))


@torch.inference_mode()
def test_a_checkpoint_is_loaded_and_its_responses_are_marked(
    tiny_mpnet: transformers.MPNetModel, wordpiece_file: Path, tmp_path: Path
) -> None:
    tiny_mpnet.save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes(wordpiece_file.read_bytes())
    # MPNet's own class would add its special tokens.
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "TokenizersBackend"}')
    ids, mask, segments = inputs(30)
    expected = tiny_mpnet(input_ids=ids, attention_mask=mask).last_hidden_state
    plain = Trunk.from_pretrained(str(tmp_path), attention_dropout=0.0).eval()
    torch.testing.assert_close(plain.encode(ids, mask, segments)[mask > 0], expected[mask > 0])

    torch.manual_seed(0)
    model, _ = initial_model(str(tmp_path), "plain", "weakest_sentence", exact_match=True)
    again = RagModel.from_architecture(model.eval().architecture()).eval()
    again.load_state_dict(model.state_dict())
    logits, other = model.read(ids, mask, segments), again.read(ids, mask, segments)
    torch.testing.assert_close(other, logits)
    # No word occurs twice here: only the segment differs.
    unmarked = model.read(ids, mask, 0 * segments)
    assert not torch.allclose(unmarked["support"][0], logits["support"][0], atol=1e-3)
