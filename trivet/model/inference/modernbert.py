"""ModernBERT for inference, equal to the library's module on every real token (arXiv 2412.13663).

Letters: N windows, L positions, H hidden width, D width of a head.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from trivet.model.exact_match_embedding import ExactMatchEmbedding
from trivet.model.inference.layer import Form, attend, refuse_longer, split_heads
from trivet.model.trunk import MASKED, additive_mask, far_apart

_KINDS = ("full_attention", "sliding_attention")


class InferenceModernBert(nn.Module):
    """Inference form of a ``transformers.ModernBertModel`` for up to ``max_length`` positions."""

    def __init__(
        self,
        encoder: Any,
        max_length: int,
        form: Form = "portable",
        prefix_attention: bool = False,
    ) -> None:
        super().__init__()
        config = encoder.config
        self.max_length = max_length
        self.form: Form = form
        self.prefix_attention = prefix_attention
        self.heads = int(config.num_attention_heads)
        self.words = encoder.embeddings.tok_embeddings
        self.matches: ExactMatchEmbedding | None = None
        self.norm = encoder.embeddings.norm
        self.final_norm = encoder.final_norm
        at = torch.arange(max_length)[None]
        for kind in _KINDS:
            cos, sin = encoder.rotary_emb(torch.zeros(1), at, kind)
            half = sin.shape[-1] // 2
            self.register_buffer(f"{kind}_cos", cos[0].clone())
            # The sign of rotate_half is folded into the table.
            signed = torch.cat([-sin[0, :, :half], sin[0, :, half:]], dim=-1)
            self.register_buffer(f"{kind}_sin", signed)
        self.register_buffer("far", far_apart(max_length, config.sliding_window))
        self.layers = self.convert(encoder, encoder.layers)

    def convert(self, encoder: Any, layers: Iterable[Any]) -> nn.ModuleList:
        """Convert the library's layers of ``encoder`` to inference layers."""
        return nn.ModuleList(ModernBertLayer(layer, self.heads) for layer in layers)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, segment_ids: Tensor) -> Tensor:
        """Return hidden states; errors as of ``start``. *Shapes:* [N, L] x 3 -> [N, L, H]."""
        hidden, shared = self.start(input_ids, attention_mask, segment_ids)
        normed: Tensor = self.final_norm(self.climb(self.layers, hidden, shared))
        return normed

    def start(
        self, input_ids: Tensor, attention_mask: Tensor, segment_ids: Tensor
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the embeddings and the further inputs of every layer: masks and rotations.

        Raises:
            WindowError: A window has more than ``max_length`` positions.
        """
        length = input_ids.shape[1]
        refuse_longer(length, self.max_length)
        hidden: Tensor = self.words(input_ids)
        if self.matches is not None:
            hidden = hidden + self.matches(input_ids, segment_ids)
        hidden = self.norm(hidden)
        mask = additive_mask(attention_mask, segment_ids, hidden.dtype, self.prefix_attention)
        assert isinstance(self.far, Tensor)
        local = self.far[:length, :length].to(hidden.dtype) * MASKED
        if self.form == "attention":  # the operator needs a row for every query
            mask = mask.expand(-1, -1, length, -1)
        tables = (self.get_buffer(f"{kind}_{part}") for kind in _KINDS for part in ("cos", "sin"))
        return hidden, (mask, mask + local, *(table[:length] for table in tables))

    def climb(
        self, layers: Iterable[nn.Module], hidden: Tensor, shared: tuple[Tensor, ...]
    ) -> Tensor:
        """Run ``layers``, as ``convert`` made them, one after another. *Shape:* [N, L, H]."""
        first, second, *tables = shared
        for layer in layers:
            assert isinstance(layer, ModernBertLayer)
            cos, sin = tables[2:] if layer.local else tables[:2]
            mask = second if layer.local else first
            attended = attend(*layer.rotated(hidden, cos, sin), mask, self.form)
            hidden = layer.finish(attended, hidden)
        return hidden


class ModernBertLayer(nn.Module):
    """One layer: norms come before attention and before the gated inner matmuls."""

    def __init__(self, layer: Any, heads: int) -> None:
        super().__init__()
        self.local = layer.attn.sliding_window is not None
        self.heads = heads
        self.attention_norm, self.attention_out = layer.attn_norm, layer.attn.Wo
        self.inner_norm, self.activation = layer.mlp_norm, layer.mlp.act
        self.widen, self.narrow = layer.mlp.Wi, layer.mlp.Wo
        projection = layer.attn.Wqkv
        self.project = nn.Linear(
            projection.in_features, projection.out_features, bias=projection.bias is not None
        )
        scale = torch.ones(projection.out_features)
        scale[: projection.in_features] = 1 / math.sqrt(projection.in_features // heads)
        with torch.no_grad():
            self.project.weight.copy_(projection.weight * scale[:, None])
            if projection.bias is not None:
                self.project.bias.copy_(projection.bias * scale)

    def rotated(self, hidden: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values. *Shapes:* [N, L, H], [L, D] x 2 -> [N, heads, L, D]."""
        query, key, value = split_heads(self.project(self.attention_norm(hidden)), self.heads)
        query, key = (part * cos + _swap_halves(part) * sin for part in (query, key))
        return query, key, value

    def finish(self, attended: Tensor, hidden: Tensor) -> Tensor:
        """Return the layer's output. *Shapes:* [N, L, H] x 2 -> [N, L, H]."""
        hidden = hidden + self.attention_out(attended)
        inner, gate = self.widen(self.inner_norm(hidden)).chunk(2, dim=-1)
        output: Tensor = hidden + self.narrow(self.activation(inner) * gate)
        return output


def _swap_halves(rotated: Tensor) -> Tensor:
    first, second = rotated.chunk(2, dim=-1)
    return torch.cat([second, first], dim=-1)
