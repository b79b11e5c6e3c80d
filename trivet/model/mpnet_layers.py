"""MPNet's layers for training, with fused attention, which the library lacks for MPNet."""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder


class MPNetLayers(nn.Module):
    """Replacement of a ``transformers.MPNetEncoder`` with the same parameters, by the same names.

    The position bias is not trained: its gradient has the size of all scores.
    """

    gradient_checkpointing = False

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.layer = cast(nn.ModuleList, encoder.layer)
        self.relative_attention_bias = cast(nn.Embedding, encoder.relative_attention_bias)
        self.relative_attention_bias.requires_grad_(False)
        for layer in self.layer:
            attention = cast(Any, layer).attention
            attention.attn = _Attention(attention.attn)
        self.train(encoder.training)

    def forward(self, hidden: Tensor, attention_mask: Tensor, **_: object) -> BaseModelOutput:
        """Run all layers. *Shapes:* [N, L, H], [N, 1, 1 or L, L] additive -> [N, L, H]."""
        mask = self.position_bias(hidden) + attention_mask
        device = hidden.device.type
        if torch.is_autocast_enabled(device):  # once for all layers
            mask = mask.to(torch.get_autocast_dtype(device))
        for layer in self.layer:
            if self.gradient_checkpointing and self.training:
                (hidden,) = checkpoint(layer, hidden, mask, use_reentrant=False)
            else:
                (hidden,) = layer(hidden, mask)
        return BaseModelOutput(last_hidden_state=hidden)

    def position_bias(self, hidden: Tensor) -> Tensor:
        """Return the bias of the scores. *Shapes:* [N, L, H] -> [1, heads, L, L]."""
        buckets = position_buckets(hidden.shape[1]).to(hidden.device)
        bias: Tensor = self.relative_attention_bias(buckets)
        return bias.permute(2, 0, 1)[None]


def position_buckets(length: int) -> Tensor:
    """Return the row of the bias for each query and key. *Shape:* [length, length] int64."""
    at = torch.arange(length)
    # The library's function, because its rounding at bucket edges belongs to the weights.
    buckets: Tensor = MPNetEncoder.relative_position_bucket(at[None, :] - at[:, None])
    return buckets


class _Attention(nn.Module):
    """Replacement of a ``transformers.MPNetSelfAttention``, with the same parameters."""

    def __init__(self, attention: Any) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = attention.q, attention.k, attention.v, attention.o
        self.dropout = attention.dropout
        self.num_attention_heads = int(attention.num_attention_heads)

    def forward(
        self,
        hidden: Tensor,
        attention_mask: Tensor,
        position_bias: Tensor | None = None,
        **_: object,
    ) -> tuple[Tensor]:
        """Return the attention output. *Shapes:* [N, L, H], [N, 1 or heads, 1 or L, L]."""
        query, key, value = (
            project(hidden).unflatten(-1, (self.num_attention_heads, -1)).transpose(1, 2)
            for project in (self.q, self.k, self.v)
        )
        if position_bias is not None:
            attention_mask = attention_mask + position_bias
        with torch.autocast(hidden.device.type, enabled=False):  # it would widen the softmax
            attended = self._attend(query, key, value, attention_mask.to(query.dtype))
        return (self.o(attended.transpose(1, 2).flatten(2)),)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        """Return the weighted values. *Shapes:* [N, heads, L, D], [N, 1 or heads, 1 or L, L]."""
        if _sums_scores(query):
            scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-1, -2) + mask
            return cast(Tensor, self.dropout(torch.softmax(scores, dim=-1)) @ value)
        return nn.functional.scaled_dot_product_attention(
            query, key, value, mask, dropout_p=self.dropout.p if self.training else 0.0
        )


def _sums_scores(query: Tensor) -> bool:
    """Whether all scores are computed, in place of torch's fused attention.

    With a bias the fused kernel for CPUs takes twice as long in bf16, and half as long in fp32.
    """
    return query.device.type == "cpu" and query.dtype != torch.float32
