"""DeBERTa-v2/v3 for inference, equal to the library's module on every real token.

Unlike in the library, the tables of relative positions are projected once, the logarithmic buckets
are a constant, and the mask has a finite constant: the smallest number of the data type turns
padded rows to NaN in bf16 (arXiv 2006.03654, 2111.09543).

Letters: N windows, L positions, H hidden width, P positions that the tables can tell apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

from trivet.model.exact_match_embedding import ExactMatchEmbedding
from trivet.model.inference.layer import (
    BY_ROW,
    Form,
    InferenceLayer,
    attend,
    refuse_longer,
    split_heads,
)
from trivet.model.trunk import additive_mask


class InferenceDeberta(nn.Module):
    """Inference form of a ``transformers.DebertaV2Model`` for up to ``max_length`` positions."""

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
        embeddings = encoder.embeddings
        self.words = embeddings.word_embeddings
        self.matches: ExactMatchEmbedding | None = None
        self.widen_words = embeddings.embed_proj
        self.norm = embeddings.LayerNorm
        self.positions = embeddings.position_embeddings
        self.segments = embeddings.token_type_embeddings
        _, slot_of_distance = _reached(config, max_length)
        ends = torch.arange(max_length)
        between = ends[:, None] - ends[None, :] + max_length - 1
        self.register_buffer("slot", slot_of_distance[between].to(torch.int32))
        self.layers = self.convert(encoder, encoder.encoder.layer)

    def convert(self, encoder: Any, layers: Iterable[Any]) -> nn.ModuleList:
        """Convert the library's layers of ``encoder`` to inference layers."""
        reached, _ = _reached(encoder.config, self.max_length)
        with torch.no_grad():
            relative = encoder.encoder.get_rel_embedding()
            relative = None if relative is None else relative[reached]
            return nn.ModuleList(
                DebertaLayer(layer, encoder.config, relative, self.form, self.prefix_attention)
                for layer in layers
            )

    @staticmethod
    def why_not(config: Any) -> str | None:
        """Return why this configuration is not supported, or ``None`` if it is."""
        if getattr(config, "conv_kernel_size", 0) > 0:
            return "it has a convolution (conv_kernel_size)"
        if not getattr(config, "relative_attention", False) and config.pos_att_type:
            return "it names pos_att_type without relative_attention"
        return None

    def forward(self, input_ids: Tensor, attention_mask: Tensor, segment_ids: Tensor) -> Tensor:
        """Return hidden states; errors as of ``start``. *Shapes:* [N, L] x 3 -> [N, L, H]."""
        hidden, shared = self.start(input_ids, attention_mask, segment_ids)
        return self.climb(self.layers, hidden, shared)

    def start(
        self, input_ids: Tensor, attention_mask: Tensor, segment_ids: Tensor
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the embeddings and the further inputs of every layer: mask and table rows.

        Raises:
            WindowError: A window has more than ``max_length`` positions.
        """
        length = input_ids.shape[1]
        refuse_longer(length, self.max_length)
        hidden = self._embed(input_ids, attention_mask, segment_ids)
        mask = additive_mask(attention_mask, segment_ids, hidden.dtype, self.prefix_attention)
        assert isinstance(self.slot, Tensor)
        slot = self.slot[:length, :length].long()
        every = (input_ids.shape[0], self.heads, length, length)
        by_query = slot.expand(every)  # once for all layers
        if self.form in BY_ROW:
            return hidden, (mask, by_query, slot.t().expand(every))
        return hidden, (mask, by_query)

    def climb(
        self, layers: Iterable[nn.Module], hidden: Tensor, shared: tuple[Tensor, ...]
    ) -> Tensor:
        """Run ``layers``, as ``convert`` made them, one after another. *Shape:* [N, L, H]."""
        for layer in layers:
            hidden = layer(hidden, *shared)
        return hidden

    def _embed(self, input_ids: Tensor, attention_mask: Tensor, segment_ids: Tensor) -> Tensor:
        embedded: Tensor = self.words(input_ids)
        if self.matches is not None:
            embedded = embedded + self.matches(input_ids, segment_ids)
        if self.positions is not None:
            embedded = embedded + self.positions.weight[: input_ids.shape[1]]
        if self.segments is not None and self.segments.num_embeddings > 1:
            embedded = embedded + self.segments(segment_ids)
        elif self.segments is not None:
            embedded = embedded + self.segments.weight[0]
        if self.widen_words is not None:
            embedded = self.widen_words(embedded)
        embedded = self.norm(embedded)
        return embedded * attention_mask[:, :, None].to(embedded.dtype)


class DebertaLayer(nn.Module):
    """One layer with its own tables, projected from the reachable positions. *Shape:* [P, H]."""

    def __init__(
        self,
        layer: Any,
        config: Any,
        relative: Tensor | None,
        form: Form,
        prefix_attention: bool = False,
    ) -> None:
        super().__init__()
        self.form: Form = form
        self.folds_mask = form == "runtime" and not prefix_attention  # see ``_of_queries``
        attention = layer.attention.self
        self.heads, self.width = attention.num_attention_heads, attention.attention_head_size
        kinds = set(config.pos_att_type or ())
        # Both position terms and the content term have the same variance; hence 3 in v3.
        scale = 1 / math.sqrt(self.width * (1 + len(kinds & {"c2p", "p2c"})))
        out = layer.attention.output
        projections = (attention.query_proj, attention.key_proj, attention.value_proj)
        self.rest = InferenceLayer(layer, projections, (out.dense, out.LayerNorm), scale)
        of_key = of_query = None
        if relative is not None and "c2p" in kinds:
            project = attention.key_proj if attention.share_att_key else attention.pos_key_proj
            of_key = self._table(project(relative))  # multiplied by scaled queries, so not scaled
        if relative is not None and "p2c" in kinds:
            project = attention.query_proj if attention.share_att_key else attention.pos_query_proj
            of_query = self._table(project(relative) * scale)
            if self.folds_mask:
                of_query = nn.functional.pad(of_query, (0, 0, 0, 1), value=1.0)
            if form not in BY_ROW:
                of_query = of_query.transpose(1, 2).contiguous()
        self.register_buffer("position_keys", of_key)
        self.register_buffer("position_queries", of_query)

    def _table(self, projected: Tensor) -> Tensor:
        """Reshape a table for the matmul. *Shapes:* [P, H] -> [heads, width, P]."""
        table: Tensor = projected.unflatten(-1, (self.heads, self.width)).permute(1, 2, 0)
        return table.contiguous()

    def forward(
        self, hidden: Tensor, mask: Tensor, by_query: Tensor, by_key: Tensor | None = None
    ) -> Tensor:
        """Return the layer's output. *Shape:* [N, L, H].

        The mask is additive, [N, 1, 1 or L, L]. ``by_query`` holds the table rows of all distances,
        [N, heads, L, L]; ``by_key`` the same by key, for the forms ``BY_ROW``.
        """
        query, key, value = split_heads(self.rest.project(hidden), self.heads)
        terms = []
        if isinstance(self.position_keys, Tensor):
            terms.append(torch.gather(query @ self.position_keys, -1, by_query))
        if isinstance(self.position_queries, Tensor):
            terms.append(self._of_queries(self.position_queries, key, mask, by_query, by_key))
        if not self.folds_mask or not isinstance(self.position_queries, Tensor):
            terms.insert(0, mask)
        bias = sum(terms[1:], start=terms[0])
        if bias is mask and self.form == "attention":  # the operator needs a row for every query
            bias = mask.expand(-1, -1, hidden.shape[1], -1)
        return self.rest.finish(attend(query, key, value, bias, self.form), hidden)

    def _of_queries(
        self, table: Tensor, key: Tensor, mask: Tensor, by_query: Tensor, by_key: Tensor | None
    ) -> Tensor:
        """Return the position-to-content scores. *Shape:* [N, heads, L, L].

        CPUs gather along the columns of keys, which is faster than transposing the scores. GPUs
        gather along rows, so the forms ``BY_ROW`` work by key and transpose. In ``runtime``
        every key has its mask as an extra component and every position a 1, which adds the mask to
        the scores without another pass; a mask that differs between queries is added by itself.
        ``table`` holds the projected positions: [heads, P, width], [heads, P, width + 1] with the
        mask, [heads, width, P] in ``BY_ROW``.
        """
        if by_key is not None:
            return torch.gather(key @ table, -1, by_key).transpose(-1, -2)
        if self.folds_mask:
            masks = mask.transpose(-1, -2).expand(-1, self.heads, -1, -1)
            key = torch.cat([key, masks], dim=-1)
        return torch.gather(table @ key.transpose(-1, -2), -2, by_query)


def _reached(config: Any, max_length: int) -> tuple[Tensor, Tensor]:
    """Return the table rows within ``max_length``, and the index of each distance among them.

    At 256 positions these are 385 of 512 rows, which makes tables and matmuls smaller.
    """
    rows, places = torch.unique(distance_slots(config, max_length), return_inverse=True)
    return rows, places


def distance_slots(config: Any, max_length: int) -> Tensor:
    """Return the table row of every distance from -(max_length - 1) to max_length - 1.

    Near distances have one row each, far ones share logarithmic buckets. *Shape:*
    [2 * max_length - 1] int64.
    """
    reach = config.max_relative_positions
    if reach < 1:
        reach = config.max_position_embeddings
    buckets = getattr(config, "position_buckets", -1)
    distances = torch.arange(1 - max_length, max_length)
    if buckets > 0:
        # The library's function, because its rounding at bucket edges belongs to the weights.
        distances = make_log_bucket_position(distances, buckets, reach).long()
    span = buckets if buckets > 0 else reach
    return torch.clamp(distances + span, 0, 2 * span - 1)
