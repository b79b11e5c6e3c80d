"""MPNet and ModernBERT in training and for export: the library's answers, and what is their own."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
import torch
import transformers
from torch import Tensor

from tests.model.windows import three
from tests.models import initial_model
from trivet.model.inference.layer import Form
from trivet.model.inference.modernbert import InferenceModernBert
from trivet.model.inference.mpnet import InferenceMpnet
from trivet.model.rag_model import RagModel
from trivet.model.trunk import Trunk

# Around the edges of MPNet's buckets: 8, where they begin to widen, and 128, where they end; and
# around the reach of ModernBERT's local attention.
LENGTHS = (1, 2, 5, 6, 8, 9, 17, 91, 128, 130, 200)


class Encoder(NamedTuple):
    library: transformers.PreTrainedModel
    inference: Any
    pad: int  # of the library
    dropout: str  # name of that of attention

    def answer(self, ids: Tensor, mask: Tensor) -> Tensor:
        hidden: Tensor = self.library(input_ids=ids, attention_mask=mask).last_hidden_state
        return hidden

    def trunk(self) -> Trunk:
        return Trunk(copy.deepcopy(self.library)).eval()


@pytest.fixture(params=["mpnet", "modernbert"])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    library = request.getfixturevalue(f"tiny_{request.param}")
    if request.param == "mpnet":
        return Encoder(library, InferenceMpnet, 1, "attention_probs_dropout_prob")
    library.set_attn_implementation("eager")
    return Encoder(library, InferenceModernBert, 0, "attention_dropout")


@torch.inference_mode()
@pytest.mark.parametrize("length", LENGTHS)
def test_every_form_equals_the_library(encoder: Encoder, length: int) -> None:
    ids, mask, segments = three(length, encoder.pad)
    expected, trunk = encoder.answer(ids, mask), encoder.trunk()
    every: list[Callable[..., Tensor]] = [trunk.encode]
    every += [encoder.inference(trunk.encoder, 200, form).eval() for form in get_args(Form)]
    for ours in every:
        off = (ours(ids, mask, segments) - expected)[mask.bool()].abs()
        assert off.max() < 1e-5, ours


@torch.inference_mode()
def test_a_checkpoint_is_loaded_and_its_responses_are_marked(
    encoder: Encoder, wordpiece_file: Path, tmp_path: Path
) -> None:
    encoder.library.save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes(wordpiece_file.read_bytes())
    # MPNet's own class would add its special tokens.
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "TokenizersBackend"}')
    ids, mask, segments = three(30, encoder.pad)
    plain = Trunk.from_pretrained(str(tmp_path), attention_dropout=0.3).eval()
    assert getattr(plain.config, encoder.dropout) == 0.3
    states, expected = plain.encode(ids, mask, segments), encoder.answer(ids, mask)
    torch.testing.assert_close(states[mask > 0], expected[mask > 0])

    torch.manual_seed(0)
    model, _ = initial_model(str(tmp_path), "plain", "weakest_sentence", exact_match_embedding=True)
    again = RagModel.from_architecture(model.eval().architecture()).eval()
    again.load_state_dict(model.state_dict())
    logits, other = model.read(ids, mask, segments), again.read(ids, mask, segments)
    torch.testing.assert_close(other, logits)
    # No word occurs twice here: only the segment differs.
    unmarked = model.read(ids, mask, 0 * segments)
    assert not torch.allclose(unmarked["support"][0], logits["support"][0], atol=1e-3)


@torch.inference_mode()
def test_the_last_layer_of_modernbert_sees_four_tokens_on_each_side(
    tiny_modernbert: transformers.ModernBertModel,
) -> None:
    ids, mask, segments = three(40)
    tiny_modernbert.get_parameter("layers.0.attn.Wo.weight").zero_()  # the second attends
    trunk = Trunk(tiny_modernbert).eval()
    before = trunk.encode(ids, mask, segments)
    ids[0, 20] = 9
    changed = (trunk.encode(ids, mask, segments) - before)[0].abs().amax(-1) > 1e-6
    assert changed.nonzero().flatten().tolist() == list(range(16, 25))


def test_the_training_module_of_mpnet_has_the_librarys_gradients(
    tiny_mpnet: transformers.MPNetModel,
) -> None:
    ids, mask, segments = three(40, pad=1)
    trunk = Trunk(copy.deepcopy(tiny_mpnet)).eval()
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


def test_the_dropout_of_mpnets_attention_is_for_training_alone(
    tiny_mpnet: transformers.MPNetModel,
) -> None:
    trunk, windows = Trunk(tiny_mpnet).eval(), three(20, pad=1)
    assert trunk.config.attention_probs_dropout_prob > 0
    assert trunk.encode(*windows).equal(trunk.encode(*windows))
    for layer in trunk.train().get_submodule("encoder.encoder.layer").children():
        layer.get_submodule("attention.dropout").eval()
        layer.get_submodule("output").eval()
    trunk.get_submodule("encoder.embeddings").eval()
    assert not trunk.encode(*windows).equal(trunk.encode(*windows))
