"""The model: windows in, every score out, in one forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from trivet.heads.support import support_probs
from trivet.heads.token_head import TokenHead
from trivet.model.aggregate import Outputs, Reduction, gather_tokens, join, supported_anywhere
from trivet.model.trunk import Trunk

HEADS = {"support": 3, "relevance": 1, "utilization": 1}


class TokenLogits(NamedTuple):
    """What the heads say of every position of every window, before anything is joined.

    Attributes:
        support: Entailment, neutral, contradiction. *Shape:* [N, L, 3].
        relevance: *Shape:* [N, L].
        utilization: *Shape:* [N, L].
    """

    support: Tensor
    relevance: Tensor
    utilization: Tensor


class RagModel(nn.Module):
    """One trunk, three heads, and the joining of windows, in one graph.

    Args:
        trunk: The shared encoder.
        faithfulness: Which part of a response decides: its weakest token or its weakest sentence.
        dropout: Before each head's classifier.
        pooled_support: Gives the support head the dense layer of an NLI checkpoint's head.
    """

    def __init__(
        self,
        trunk: Trunk,
        faithfulness: Reduction = "weakest_sentence",
        dropout: float = 0.0,
        pooled_support: bool = False,
    ) -> None:
        super().__init__()
        self.trunk = trunk
        self.faithfulness: Reduction = faithfulness
        self.dropout = dropout
        self.pooled_support = pooled_support
        self.heads = nn.ModuleDict(
            {
                name: TokenHead(
                    trunk.hidden, classes, dropout, pooled=pooled_support and name == "support"
                )
                for name, classes in HEADS.items()
            }
        )

    def architecture(self) -> dict[str, Any]:
        """Return what ``from_architecture`` needs, as JSON types."""
        return {
            "encoder": self.trunk.encoder_config(),
            "heads": list(self.heads),
            "faithfulness": self.faithfulness,
            "dropout": self.dropout,
            "pooled_support": self.pooled_support,
        }

    @classmethod
    def from_architecture(cls, architecture: dict[str, Any]) -> Self:
        """Build the model with random weights from ``architecture()``'s dictionary."""
        return cls(
            Trunk.from_encoder_config(architecture["encoder"]),
            faithfulness=architecture["faithfulness"],
            dropout=architecture["dropout"],
            pooled_support=architecture["pooled_support"],
        )

    def read(self, input_ids: Tensor, attention_mask: Tensor, segment_ids: Tensor) -> TokenLogits:
        """Run the encoder and the heads over every window. *Shapes:* [N, L] x 3."""
        hidden = self.trunk(input_ids, attention_mask, segment_ids)
        if torch.is_autocast_enabled(hidden.device.type):
            # Eight bits of a logit are too few for a probability.
            with torch.autocast(hidden.device.type, enabled=False):
                return self._apply_heads(hidden)
        return self._apply_heads(hidden)

    def _apply_heads(self, hidden: Tensor) -> TokenLogits:
        return TokenLogits(
            support=self.heads["support"](hidden),
            relevance=self.heads["relevance"](hidden).squeeze(-1),
            utilization=self.heads["utilization"](hidden).squeeze(-1),
        )

    def join(
        self,
        logits: TokenLogits,
        response_at: Tensor,
        context_at: Tensor,
        context_weight: Tensor,
        sentence_pool: Tensor,
    ) -> Outputs:
        """Join the windows' logits into probabilities of tokens, sentences and examples."""
        window_support = support_probs(logits.support).reshape(-1)
        return join(
            support_probs=supported_anywhere(window_support, response_at),
            relevance_probs=gather_tokens(logits.relevance.sigmoid().reshape(-1), context_at),
            utilization_probs=gather_tokens(logits.utilization.sigmoid().reshape(-1), context_at),
            response_mask=response_at.amax(dim=-1) >= 0,
            context_weight=context_weight,
            sentence_pool=sentence_pool,
            faithfulness=self.faithfulness,
        )

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        segment_ids: Tensor,
        response_at: Tensor,
        context_at: Tensor,
        context_weight: Tensor,
        sentence_pool: Tensor,
    ) -> Outputs:
        """Judge a batch; the arguments are the fields of ``Windows``, in order."""
        logits = self.read(input_ids, attention_mask, segment_ids)
        return self.join(logits, response_at, context_at, context_weight, sentence_pool)


def as_tensors(windows: Sequence[Any], device: torch.device | str = "cpu") -> tuple[Tensor, ...]:
    """Turn the arrays of a ``Windows`` into tensors, in order: the one edge between the two."""
    return tuple(torch.as_tensor(array).to(device) for array in windows)
