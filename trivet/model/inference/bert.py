"""BERT for inference, equal to the library's module on every real token.

It attends in standard operators or in ONNX Runtime's fused operator, which stores no L x L scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from trivet.model.exact_match_embedding import ExactMatchEmbedding
from trivet.model.inference.layer import Form, InferenceLayer, attend, key_mask, split_heads
from trivet.model.trunk import MASKED


class InferenceBert(nn.Module):
    """Inference form of a ``transformers.BertModel``; weights that are not fused are shared.

    The form ``runtime`` writes ``com.microsoft.MultiHeadAttention``, which torch cannot run.
    """

    def __init__(self, encoder: Any, form: Form = "portable") -> None:
        super().__init__()
        config = encoder.config
        self.form: Form = form
        self.heads = int(config.num_attention_heads)
        self.width = int(config.hidden_size) // self.heads
        embeddings = encoder.embeddings
        self.words = embeddings.word_embeddings
        self.matches: ExactMatchEmbedding | None = None
        self.norm = embeddings.LayerNorm
        self.register_buffer("positions", embeddings.position_embeddings.weight.detach())
        self.register_buffer("segments", embeddings.token_type_embeddings.weight.detach())
        self.layers = self.convert(encoder, encoder.encoder.layer)

    def convert(self, encoder: Any, layers: Iterable[Any]) -> nn.ModuleList:
        """Convert the library's layers of ``encoder`` to inference layers."""
        return nn.ModuleList(
            InferenceLayer(
                layer,
                (own.query, own.key, own.value),
                (out.dense, out.LayerNorm),
                1 / math.sqrt(self.width),
            )
            for layer in layers
            for own, out in ((layer.attention.self, layer.attention.output),)
        )

    @staticmethod
    def why_not(config: Any) -> str | None:
        """Return why this configuration is not supported, or ``None`` if it is."""
        if getattr(config, "is_decoder", False):
            return "it is a decoder"
        if getattr(config, "position_embedding_type", None) not in (None, "absolute"):
            return f"its position_embedding_type is {config.position_embedding_type}"
        return None

    def forward(self, input_ids: Tensor, attention_mask: Tensor, segment_ids: Tensor) -> Tensor:
        """Return hidden states. *Shapes:* [N, L] x 3 -> [N, L, H]."""
        hidden, given = self.start(input_ids, attention_mask, segment_ids)
        return self.climb(self.layers, hidden, given)

    def start(
        self, input_ids: Tensor, attention_mask: Tensor, segment_ids: Tensor
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the embeddings and the further inputs of every layer: the mask."""
        assert isinstance(self.positions, Tensor) and isinstance(self.segments, Tensor)
        if len(self.segments) > 1:
            segments = nn.functional.embedding(segment_ids, self.segments)
        else:
            segments = self.segments[0]
        hidden: Tensor = self.words(input_ids) + self.positions[: input_ids.shape[1]] + segments
        if self.matches is not None:
            hidden = hidden + self.matches(input_ids, segment_ids)
        hidden = self.norm(hidden)
        mask = key_mask(attention_mask, hidden.dtype, MASKED)
        if self.form == "runtime":
            return hidden, (mask,)
        mask = mask[:, None, None, :]
        if self.form == "attention":  # the operator needs a row for every query
            mask = mask.expand(-1, -1, input_ids.shape[1], -1)
        return hidden, (mask,)

    def climb(
        self, layers: Iterable[nn.Module], hidden: Tensor, given: tuple[Tensor, ...]
    ) -> Tensor:
        """Run ``layers``, as ``convert`` made them, one after another. *Shape:* [N, L, H]."""
        (mask,) = given
        run = self._attend_fused if self.form == "runtime" else self._attend
        for layer in layers:
            assert isinstance(layer, InferenceLayer)
            hidden = layer.finish(run(layer.project(hidden), mask), hidden)
        return hidden

    def _attend(self, projected: Tensor, mask: Tensor) -> Tensor:
        """Attend in standard operators. *Shapes:* [N, L, 3H], [N, 1, 1 or L, L] -> [N, L, H]."""
        return attend(*split_heads(projected, self.heads), mask, self.form)

    def _attend_fused(self, projected: Tensor, mask: Tensor) -> Tensor:
        """Attend in ONNX Runtime's operator. *Shapes:* [N, L, 3H], [N, L] -> [N, L, H].

        The operator's fast path takes no mask. So every query gets an extra component 1 and every
        key its mask, which adds the mask to the score exactly.
        """
        query, key, value = projected.chunk(3, dim=-1)
        mask = mask[:, :, None, None].expand(-1, -1, self.heads, 1)
        heads = (self.heads, self.width)
        query = torch.cat([query.unflatten(-1, heads), torch.ones_like(mask)], dim=-1).flatten(2)
        key = torch.cat([key.unflatten(-1, heads), mask], dim=-1).flatten(2)
        attended: Tensor = torch.onnx.ops.symbolic(
            "com.microsoft::MultiHeadAttention",
            (query, key, value),
            attrs={"num_heads": self.heads, "scale": 1.0},
            dtype=value.dtype,
            shape=value.shape,
            version=1,
        )
        return attended
