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
from trivet.model.inference.layer import Form, InferenceLayer, attend, split_heads
from trivet.model.trunk import MASKED, additive_mask


class InferenceBert(nn.Module):
    """Inference form of a ``transformers.BertModel``; weights that are not fused are shared.

    The form ``runtime`` writes ``com.microsoft.MultiHeadAttention``, which torch cannot run.
    """

    def __init__(
        self, encoder: Any, form: Form = "portable", prefix_attention: bool = False
    ) -> None:
        super().__init__()
        config = encoder.config
        self.form: Form = form
        self.prefix_attention = prefix_attention
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
                (attention.query, attention.key, attention.value),
                (out.dense, out.LayerNorm),
                1 / math.sqrt(self.width),
            )
            for layer in layers
            for attention, out in ((layer.attention.self, layer.attention.output),)
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
        hidden, shared = self.start(input_ids, attention_mask, segment_ids)
        return self.climb(self.layers, hidden, shared)

    def start(
        self, input_ids: Tensor, attention_mask: Tensor, segment_ids: Tensor
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the embeddings and the further inputs of every layer, for the mask."""
        assert isinstance(self.positions, Tensor) and isinstance(self.segments, Tensor)
        if len(self.segments) > 1:
            segments = nn.functional.embedding(segment_ids, self.segments)
        else:
            segments = self.segments[0]
        hidden: Tensor = self.words(input_ids) + self.positions[: input_ids.shape[1]] + segments
        if self.matches is not None:
            hidden = hidden + self.matches(input_ids, segment_ids)
        hidden = self.norm(hidden)
        if self.form == "runtime":
            return hidden, self._mask_components(attention_mask, segment_ids, hidden.dtype)
        mask = additive_mask(attention_mask, segment_ids, hidden.dtype, self.prefix_attention)
        if self.form == "attention":  # the operator needs a row for every query
            mask = mask.expand(-1, -1, input_ids.shape[1], -1)
        return hidden, (mask,)

    def _mask_components(
        self, attention_mask: Tensor, segment_ids: Tensor, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Return components of queries and keys whose products are the mask. *Shape:* [N, L, m].

        A key's mask is the product with 1. Prefix attention is one product more: with the mask
        of the response's keys, 1 of all other queries.
        """
        keys = [(1.0 - attention_mask.to(dtype)) * MASKED]
        queries = [torch.ones_like(keys[0])]
        if self.prefix_attention:
            response = segment_ids.to(dtype)
            keys.append(response * MASKED)
            queries.append(1.0 - response)
        return torch.stack(queries, dim=-1), torch.stack(keys, dim=-1)

    def climb(
        self, layers: Iterable[nn.Module], hidden: Tensor, shared: tuple[Tensor, ...]
    ) -> Tensor:
        """Run ``layers``, as ``convert`` made them, one after another. *Shape:* [N, L, H]."""
        for layer in layers:
            assert isinstance(layer, InferenceLayer)
            projected = layer.project(hidden)
            if self.form == "runtime":
                attended = self._attend_fused(projected, *shared)
            else:
                (mask,) = shared
                attended = attend(*split_heads(projected, self.heads), mask, self.form)
            hidden = layer.finish(attended, hidden)
        return hidden

    def _attend_fused(self, projected: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
        """Attend in ONNX Runtime's operator. *Shapes:* [N, L, 3H], [N, L, m] x 2 -> [N, L, H].

        The operator's fast path takes no mask, so every head gets the components of the mask.
        """
        query, key, value = projected.chunk(3, dim=-1)

        def with_mask(projected: Tensor, components: Tensor) -> Tensor:
            per_head = projected.unflatten(-1, (self.heads, self.width))
            mask = components[:, :, None, :].expand(-1, -1, self.heads, -1)
            return torch.cat([per_head, mask], dim=-1).flatten(2)

        query, key = with_mask(query, queries), with_mask(key, keys)
        attended: Tensor = torch.onnx.ops.symbolic(
            "com.microsoft::MultiHeadAttention",
            (query, key, value),
            attrs={"num_heads": self.heads, "scale": 1.0},
            dtype=value.dtype,
            shape=value.shape,
            version=1,
        )
        return attended
