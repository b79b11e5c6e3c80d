"""A head over hidden states of tokens, and the sum over examples in all losses."""

from __future__ import annotations

from torch import Tensor, nn


class TokenHead(nn.Module):
    """Hidden states of tokens to logits, always in fp32.

    ``pooled`` adds the dense layer and GELU of DeBERTa's sequence classifiers, to copy an NLI head;
    ``norm`` adds a layer norm after it, with this epsilon, as in ModernBERT's classifiers.
    """

    def __init__(
        self,
        hidden: int,
        classes: int,
        dropout: float = 0.0,
        pooled: bool = False,
        norm: float | None = None,
    ) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden, hidden) if pooled else None
        self.norm = None if norm is None else nn.LayerNorm(hidden, eps=norm)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(hidden, classes)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return logits. *Shapes:* [..., H] -> [..., classes]."""
        hidden = hidden.float()
        if self.dense is not None:
            hidden = nn.functional.gelu(self.dense(hidden))
        if self.norm is not None:
            hidden = self.norm(hidden)
        logits: Tensor = self.classifier(self.dropout(hidden))
        return logits


def sum_of_means(loss: Tensor, known: Tensor, weight: Tensor) -> Tensor:
    """Return the mean over each example's known tokens, summed over examples by weight.

    So long and short responses count alike, and an example's share in the sum is independent of the
    rest of the batch. ``known`` is the weight of a token, 0 where unknown.
    *Shapes:* [B, T] x 2, [B] -> [].
    """
    means = (loss * known).sum(dim=-1) / known.sum(dim=-1).clamp(min=1e-9)
    return (means * weight).sum()
