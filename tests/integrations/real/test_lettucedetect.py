"""The detector returns the shapes of the real one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integrations.conftest import Rows
from trivet.integrations.lettucedetect import HallucinationDetector


@pytest.fixture
def theirs(tmp_path: Path, wordpiece_file: Path) -> Any:
    """Return the real detector on a tiny model that marks every token."""
    pytest.importorskip("lettucedetect")
    import torch
    import transformers
    from lettucedetect.models.inference import HallucinationDetector as Theirs

    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(wordpiece_file),
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
    )
    model = transformers.BertForTokenClassification(config)
    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.copy_(torch.tensor([-1.0, 1.0]))
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return Theirs(method="transformer", model_path=str(tmp_path), device="cpu", max_length=512)


@pytest.mark.parametrize("output_format", ["spans", "tokens"])
def test_shapes_are_the_same(theirs: Any, embedded: Any, rows: Rows, output_format: str) -> None:
    row = rows[1]
    call = {"context": row["contexts"], "question": row["question"], "answer": row["response"]}
    real = theirs.predict(**call, output_format=output_format)
    ours = HallucinationDetector(embedded).predict(**call, output_format=output_format)  # type: ignore[arg-type]
    kinds = {name: type(value) for name, value in real[0].items()}
    for each in ours:
        assert kinds.items() <= {name: type(value) for name, value in each.items()}.items()
