"""MPNet for inference, equal to the library's module on every real token."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from trivet.model.exact_match_embedding import ExactMatchEmbedding
from trivet.model.inference.layer import Form, InferenceLayer, attend, refuse_longer, split_heads
from trivet.model.mpnet_layers import position_buckets
from trivet.model.trunk import additive_mask


class InferenceMpnet(nn.Module):
    """Inference form of a trunk's ``transformers.MPNetModel`` for up to ``max_length`` positions.

    The bias of the relative positions is computed once for all layers. The form ``runtime`` is
    the portable one: ONNX Runtime's fused operator with a bias is not faster on CPUs.
    """

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
        self.width = int(config.hidden_size) // self.heads
        embeddings = encoder.embeddings
        self.words = embeddings.word_embeddings
        self.matches: ExactMatchEmbedding | None = None
        self.norm = embeddings.LayerNorm
        first = embeddings.padding_idx + 1
        positions = embeddings.position_embeddings.weight.detach()[first : first + max_length]
        self.register_buffer("positions", positions.clone())
        self.register_buffer("bias", encoder.encoder.relative_attention_bias.weight.detach())
        self.register_buffer("bucket", position_buckets(max_length).to(torch.int32))
        self.layers = self.convert(encoder, encoder.encoder.layer)

    def convert(self, encoder: Any, layers: Iterable[Any]) -> nn.ModuleList:
        """Convert the library's layers of ``encoder`` to inference layers."""
        return nn.ModuleList(
            InferenceLayer(
                layer,
                (attention.q, attention.k, attention.v),
                (attention.o, norm),
                scale=1 / math.sqrt(self.width),
            )
            for layer in layers
            for attention, norm in ((layer.attention.attn, layer.attention.LayerNorm),)
        )

    def forward(self, input_ids: Tensor, attention_mask: Tensor, segment_ids: Tensor) -> Tensor:
        """Return hidden states; errors as of ``start``. *Shapes:* [N, L] x 3 -> [N, L, H]."""
        hidden, shared = self.start(input_ids, attention_mask, segment_ids)
        return self.climb(self.layers, hidden, shared)

    def start(
        self, input_ids: Tensor, attention_mask: Tensor, segment_ids: Tensor
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the embeddings and the further input of every layer: the bias with the mask.

        Raises:
            WindowError: A window has more than ``max_length`` positions.
        """
        length = input_ids.shape[1]
        refuse_longer(length, self.max_length)
        assert isinstance(self.positions, Tensor) and isinstance(self.bucket, Tensor)
        assert isinstance(self.bias, Tensor)
        hidden: Tensor = self.words(input_ids) + self.positions[:length]
        if self.matches is not None:
            hidden = hidden + self.matches(input_ids, segment_ids)
        hidden = self.norm(hidden)
        bias = nn.functional.embedding(self.bucket[:length, :length], self.bias).permute(2, 0, 1)
        mask = additive_mask(attention_mask, segment_ids, hidden.dtype, self.prefix_attention)
        return hidden, (bias + mask,)

    def climb(
        self, layers: Iterable[nn.Module], hidden: Tensor, shared: tuple[Tensor, ...]
    ) -> Tensor:
        """Run ``layers``, as ``convert`` made them, one after another. *Shape:* [N, L, H]."""
        (bias,) = shared
        for layer in layers:
            assert isinstance(layer, InferenceLayer)
            parts = split_heads(layer.project(hidden), self.heads)
            hidden = layer.finish(attend(*parts, bias, self.form), hidden)
        return hidden
