"""One head over one token's hidden state, and the two ways a loss is averaged over tokens."""

from __future__ import annotations

from torch import Tensor, nn


class TokenHead(nn.Module):
    """Hidden state of a token to logits, in fp32 whatever the encoder computed in.

    ``pooled`` puts a dense layer and a GELU before the classifier, as DeBERTa's sequence
    classifiers have them, so that a checkpoint's NLI head can be copied whole.
    """

    def __init__(
        self, hidden: int, classes: int, dropout: float = 0.0, pooled: bool = False
    ) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden, hidden) if pooled else None
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(hidden, classes)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return logits. *Shapes:* [..., H] -> [..., classes]."""
        hidden = hidden.float()
        if self.dense is not None:
            hidden = nn.functional.gelu(self.dense(hidden))
        logits: Tensor = self.classifier(self.dropout(hidden))
        return logits


def mean_of_known(loss: Tensor, known: Tensor, weight: Tensor) -> Tensor:
    """Average over each example's known tokens, then the weighted examples over their number.

    So a long response counts as much as a short one, and a weight counts whatever stands beside it
    in a batch. 0 where nothing is known in the whole batch.

    Args:
        loss: *Shape:* [B, T].
        known: How much each token counts; 0 where unknown. *Shape:* [B, T].
        weight: *Shape:* [B].
    """
    counts = known.sum(dim=-1)
    each = (loss * known).sum(dim=-1) / counts.clamp(min=1e-9)
    examples = (counts > 0).sum()
    return (each * weight).sum() / examples.clamp(min=1)
