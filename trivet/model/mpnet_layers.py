"""MPNet's layers for training, with torch's fused attention.

The library's attention keeps the L x L scores of every layer for the backward pass.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder


class MPNetLayers(nn.Module):
    """Replacement of a ``transformers.MPNetEncoder`` with the same parameters, by the same names.

    The position bias is not trained: torch does not fuse attention with a mask that has a gradient.
    """

    gradient_checkpointing = False

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.layer = cast(nn.ModuleList, encoder.layer)
        self.relative_attention_bias = cast(nn.Embedding, encoder.relative_attention_bias)
        self.relative_attention_bias.requires_grad_(False)
        for layer in self.layer:
            attention = cast(Any, layer).attention
            attention.attn = _FusedAttention(attention.attn)
        self.train(encoder.training)

    def forward(self, hidden: Tensor, attention_mask: Tensor, **_: object) -> BaseModelOutput:
        """Run all layers. *Shapes:* [N, L, H], [N, 1, 1, L] additive -> [N, L, H]."""
        mask = self.position_bias(hidden) + attention_mask  # once for all layers
        device = hidden.device.type
        if torch.is_autocast_enabled(device):
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


class _FusedAttention(nn.Module):
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
        attended = nn.functional.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=attention_mask,
            dropout_p=self.dropout.p if self.training else 0.0,
        )
        return (self.o(attended.transpose(1, 2).flatten(2)),)
