"""Initial models from an encoder, an NLI checkpoint or a bundle."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from tests.conftest import RELATIVE, TINY, WORDS
from tests.models import initial_model
from trivet.bundle.bundle import add_files
from trivet.data.tokenization import SegmentTokenizer
from trivet.errors import ConfigError
from trivet.heads.cross_attention_head import CrossAttentionHead
from trivet.heads.token_head import TokenHead

TEXTS = ["The old mill was built in 1817.", "Who had a lamp? [SEP] x", "", "Où est le pont 🌉 ?"]


def same_tokenizer(ours: SegmentTokenizer, file: Path) -> bool:
    theirs = SegmentTokenizer.from_file(file)
    return ours.special == theirs.special and all(
        np.array_equal(a.ids, b.ids) and np.array_equal(a.offsets, b.offsets)
        for a, b in zip(ours.encode(TEXTS), theirs.encode(TEXTS), strict=True)
    )


@torch.inference_mode()
def test_the_support_head_reproduces_the_checkpoints_own_logits(nli_checkpoint: Path) -> None:
    model, tokenizer = initial_model(str(nli_checkpoint), "nli", "weakest_sentence")
    model.eval()
    reference = transformers.AutoModelForSequenceClassification.from_pretrained(nli_checkpoint)
    ids = torch.arange(27).reshape(3, 9) * 5 % 250 + 5
    mask = (torch.arange(9) < torch.tensor([9, 6, 2])[:, None]).long()
    theirs = reference.eval()(input_ids=ids, attention_mask=mask).logits
    # The checkpoint's order is neutral, entailment, contradiction; ours puts entailment first.
    ours = model.read(ids, mask, torch.zeros_like(ids))["support"][:, 0]
    torch.testing.assert_close(ours, theirs[:, [1, 0, 2]], atol=1e-5, rtol=1e-5)
    assert ours.std() > 0.1, "equal logits would hide a wrong order"
    assert same_tokenizer(tokenizer, nli_checkpoint / "tokenizer.json")


def test_plain_heads_are_random_and_without_a_dense_layer(bert_checkpoint: Path) -> None:
    model, tokenizer = initial_model(
        str(bert_checkpoint), "plain", "weakest_token", head_dropout=0.3, attention_dropout=0.0
    )
    assert model.faithfulness == "weakest_token"
    for head in model.heads.values():
        assert isinstance(head, TokenHead | CrossAttentionHead) and head.dropout.p == 0.3
        assert not isinstance(head, TokenHead) or head.dense is None
    assert model.trunk.config.attention_probs_dropout_prob == 0.0
    assert same_tokenizer(tokenizer, bert_checkpoint / "tokenizer.json")


def test_a_checkpoint_whose_classifier_is_missing_is_not_filled_at_random(
    nli_checkpoint: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "headless"
    shutil.copytree(nli_checkpoint, folder)
    state = load_file(folder / "model.safetensors")
    kept = {name: tensor for name, tensor in state.items() if not name.startswith("classifier")}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=r"has no tensor 'classifier\.weight'"):
        initial_model(str(folder), "nli", "weakest_sentence")


def test_a_bundle_gives_all_its_weights_heads_included(
    bert_checkpoint: Path, weights_bundle: Path
) -> None:
    model, tokenizer = initial_model(
        str(weights_bundle), "bundle", "weakest_token", head_dropout=0.2, attention_dropout=0.0
    )
    state = load_file(weights_bundle / "model.safetensors")
    torch.testing.assert_close(dict(model.state_dict()), state, atol=0, rtol=0)
    assert (model.faithfulness, model.dropout) == ("weakest_token", 0.2)
    assert model.trunk.config.attention_probs_dropout_prob == 0.0
    assert same_tokenizer(tokenizer, bert_checkpoint / "tokenizer.json")


def test_forms_are_unified_unless_the_verdicts_of_a_bundle_are_kept(
    bert_checkpoint: Path, weights_bundle: Path
) -> None:
    before = SegmentTokenizer.from_file(bert_checkpoint / "tokenizer.json")
    add_files(weights_bundle, {"tokenizer.json": before.to_json().encode()})
    _, unified = initial_model(str(weights_bundle), "bundle", "weakest_token")
    _, kept = initial_model(str(weights_bundle), "bundle", "weakest_token", keeps_verdicts=True)
    assert unified.unifies_forms and not before.unifies_forms
    assert kept.to_json() == before.to_json()


def test_a_word_list_is_converted(tmp_path: Path, bert_checkpoint: Path) -> None:
    folder = Path(shutil.copytree(bert_checkpoint, tmp_path / "checkpoint"))
    vocabulary = json.loads((folder / "tokenizer.json").read_bytes())["model"]["vocab"]
    words = sorted(vocabulary, key=lambda word: int(vocabulary[word]))
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    (folder / "tokenizer.json").unlink()
    _, tokenizer = initial_model(str(folder), "plain", "weakest_sentence")
    assert same_tokenizer(tokenizer, bert_checkpoint / "tokenizer.json")


@pytest.fixture
def sentencepiece_checkpoint(tmp_path: Path) -> Path:
    """Save a tiny DeBERTa with a SentencePiece model as its only vocabulary."""
    schema = pytest.importorskip("sentencepiece.sentencepiece_model_pb2")
    model = schema.ModelProto()
    model.trainer_spec.model_type = 1  # Unigram
    model.trainer_spec.unk_id = 3
    kinds = {"[PAD]": 3, "[CLS]": 3, "[SEP]": 3, "[UNK]": 2} | {f"▁{word}": 1 for word in WORDS}
    for piece, kind in kinds.items():
        model.pieces.add(piece=piece, score=-4.0 if kind == 1 else 0.0, type=kind)
    (tmp_path / "spm.model").write_bytes(model.SerializeToString())
    sizes = TINY | RELATIVE | {"vocab_size": len(kinds) + 1, "pooler_hidden_size": 16}
    transformers.DebertaV2Model(transformers.DebertaV2Config(**sizes)).save_pretrained(tmp_path)
    return tmp_path


def test_a_sentencepiece_model_is_converted(sentencepiece_checkpoint: Path) -> None:
    _, tokenizer = initial_model(str(sentencepiece_checkpoint), "plain", "weakest_sentence")
    (segment,) = tokenizer.encode(["the bridge crosses the river"])
    text = "the bridge crosses the river"
    assert "".join(text[start:end] for start, end in segment.offsets) == text.replace(" ", "")
    assert segment.ids.min() > 3  # neither special nor unknown


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (None, r"has no readable tokenizer: nothing to convert|has 5 ids|a file is missing"),
        (
            "sentencepiece",
            r"converting another file needs sentencepiece; .*constraints.txt '.\[train\]'",
        ),
    ],
)
def test_what_cannot_be_converted_is_refused(
    tmp_path: Path,
    bert_checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
    missing: str | None,
    message: str,
) -> None:
    folder = Path(shutil.copytree(bert_checkpoint, tmp_path / "checkpoint"))
    (folder / "tokenizer.json").unlink()
    if missing is not None:

        def refuse(*_: Any, **__: Any) -> None:
            raise ValueError("nothing to convert")

        find = importlib.util.find_spec
        monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", refuse)
        monkeypatch.setattr(
            importlib.util,
            "find_spec",
            lambda name: None if name == missing else find(name),
        )
    with pytest.raises(ConfigError, match=message):
        initial_model(str(folder), "plain", "weakest_sentence")
