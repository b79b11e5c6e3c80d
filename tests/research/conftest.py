"""A tiny random HHEM, saved as its makers publish it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import safetensors.torch
import tokenizers
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from tests.conftest import LETTERS, MARKS, WORDS, filled


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
