"""Cosines of questions and context sentences by a retriever, as targets of a similarity.

A retriever that is trained to judge unlearns which passage answers a question, unless what it knew
is among its targets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

from trivet.data.tokenization import FloatArray, TokenizedExample
from trivet.errors import ConfigError
from trivet.interface import replace_surrogates

_MAX_TOKENS = 128  # of a text; a sentence is rarely longer
_CALL_TEXTS = 64


class Retriever:
    """An encoder whose mean states of texts are compared by their cosine.

    Args:
        name: Folder or hub name of the encoder and its tokenizer.
        bf16: Compute in bf16, which is faster where the CPU has it.

    Raises:
        ConfigError: The encoder or its tokenizer cannot be loaded.
    """

    def __init__(self, name: str, bf16: bool = False) -> None:
        self._bf16 = bf16
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
            model: Any = AutoModel.from_pretrained(
                name, trust_remote_code=False, use_safetensors=True
            )
        except (OSError, ValueError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise ConfigError(f"distill.retriever: cannot load {name!r}: {reason}") from error
        self._model = model.eval()
        self._known: dict[str, FloatArray] = {}  # embeddings by their texts

    def fingerprint(self) -> str:
        """Return a hash of the weights, which names the cosines of this encoder."""
        total = hashlib.sha256()
        for parameter in self._model.parameters():
            total.update(parameter.detach().numpy().tobytes())
        return total.hexdigest()

    def cosines(self, tokenized: TokenizedExample) -> FloatArray:
        """Return the cosine of each context token's sentence and the question. *Shape:* [C].

        All are NaN without a question.
        """
        example = tokenized.example
        unknown = np.full(len(tokenized.context), np.nan, dtype=np.float32)
        if not example.question.strip() or not len(unknown):
            return unknown
        spans = tokenized.context_sentence_spans
        texts = [example.contexts[span.context][span.start : span.end] for span in spans]
        question, *sentences = self._embed([example.question, *texts])
        cosines = np.stack(sentences) @ question
        return cosines[tokenized.context_sentence].astype(np.float32)

    def _embed(self, texts: Sequence[str]) -> list[FloatArray]:
        """Return embeddings of length 1. *Shape of each:* [H]."""
        new = sorted({*texts} - self._known.keys(), key=len)
        for first in range(0, len(new), _CALL_TEXTS):
            some = new[first : first + _CALL_TEXTS]
            inputs = self._tokenizer(
                [replace_surrogates(text)[0] for text in some],
                padding=True,
                truncation=True,
                max_length=_MAX_TOKENS,
                return_tensors="pt",
            )
            mask = inputs["attention_mask"][..., None].float()
            with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, self._bf16):
                states = self._model(**inputs).last_hidden_state
            means = (states.float() * mask).sum(1) / mask.sum(1)
            vectors = torch.nn.functional.normalize(means, dim=-1).numpy()
            self._known |= dict(zip(some, vectors, strict=True))
        return [self._known[text] for text in texts]
