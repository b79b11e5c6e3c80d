"""Tiny random models of the architectures of peers, saved as their makers publish them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import tokenizers
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from tests.conftest import LETTERS, MARKS, TINY, WORDS, deberta_config, filled


@pytest.fixture(scope="session")
def t5_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save the configuration and the tokenizer of a tiny FLAN-T5: <pad> 0, </s> 1, <unk> 2."""
    scored: dict[str, float] = dict.fromkeys(["<pad>", "</s>", "<unk>"], 0.0)
    scored |= {"▁": -3.0} | {f"▁{word}": -4.0 for word in WORDS}
    for character in LETTERS + LETTERS[:26].upper() + MARKS:
        scored.setdefault(character, -9.0)
    scored |= {f"<extra_{number}>": -20.0 for number in range(40)}  # more than 209 pieces
    tokenizer = tokenizers.Tokenizer(models.Unigram(list(scored.items()), unk_id=2))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    folder = tmp_path_factory.mktemp("flan-t5")
    tokenizer.save(str(folder / "tokenizer.json"))
    config = transformers.T5Config(
        vocab_size=tokenizer.get_vocab_size(),
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        feed_forward_proj="gated-gelu",
    )
    config.update({"tie_word_embeddings": False})
    config.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def hhem_checkpoint(t5_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a tiny HHEM as published: weights under ``t5.``, a configuration of its own kind."""
    config = transformers.AutoConfig.from_pretrained(t5_folder)
    model = filled(transformers.T5ForTokenClassification(config))
    folder = tmp_path_factory.mktemp("hhem")
    kept = {f"t5.{name}": value for name, value in model.state_dict().items()}
    kept.pop("t5.transformer.encoder.embed_tokens.weight")
    safetensors.torch.save_file(
        {name: value.clone() for name, value in kept.items()}, folder / "model.safetensors"
    )
    described = {
        "model_type": "HHEMv2",
        "auto_map": {"AutoConfig": "configuration_hhem_v2.HHEMv2Config"},
        "foundation": str(t5_folder),
    }
    (folder / "config.json").write_text(json.dumps(described), encoding="utf-8")
    return folder


def tokenizer_of(specials: list[str], pair: str, **names: str) -> PreTrainedTokenizerFast:
    """Return a tokenizer of the tests' words with some special tokens, which have the first ids."""
    scored = dict.fromkeys(specials, 0.0) | {"▁": -3.0} | {f"▁{word}": -4.0 for word in WORDS}
    for character in LETTERS + LETTERS[:26].upper() + MARKS + "\n":
        scored.setdefault(character, -9.0)
    tokenizer = tokenizers.Tokenizer(
        models.Unigram(list(scored.items()), unk_id=specials.index(names["unk_token"]))
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(specials)
    cls, sep = names["cls_token"], names["sep_token"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=pair,
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in (cls, sep)],
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def roberta_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer with RoBERTa's special tokens."""
    names = {"cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>", "unk_token": "<unk>"}
    pair = "<s> $A </s> </s> $B </s>"
    return tokenizer_of(["<s>", "<pad>", "</s>", "<unk>"], pair, eos_token="</s>", **names)


def roberta_config(**settings: Any) -> transformers.RobertaConfig:
    """Return a two-layer RoBERTa, whose positions begin at 2."""
    vocabulary = len(roberta_tokenizer())
    sizes = TINY | {"max_position_embeddings": 514, "type_vocab_size": 1}
    return transformers.RobertaConfig(vocab_size=vocabulary, **sizes, **settings)


@pytest.fixture(scope="session")
def minicheck_checkpoints(
    t5_folder: Path, unigram_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Save a tiny MiniCheck of each kind."""
    saved: dict[str, tuple[Any, Any]] = {
        "roberta": (
            transformers.RobertaForSequenceClassification(roberta_config()),
            roberta_tokenizer(),
        ),
        "deberta": (
            transformers.DebertaV2ForSequenceClassification(deberta_config(unigram_file)),
            PreTrainedTokenizerFast(
                tokenizer_file=str(unigram_file),
                pad_token="[PAD]",
                cls_token="[CLS]",
                sep_token="[SEP]",
                eos_token="[SEP]",
                unk_token="[UNK]",
            ),
        ),
        "flan-t5": (
            transformers.T5ForConditionalGeneration(
                transformers.AutoConfig.from_pretrained(t5_folder)
            ),
            transformers.AutoTokenizer.from_pretrained(t5_folder),
        ),
    }
    folders = {}
    for kind, (model, tokenizer) in saved.items():
        folders[kind] = tmp_path_factory.mktemp(kind)
        filled(model).save_pretrained(folders[kind])
        tokenizer.save_pretrained(folders[kind])
    return folders
