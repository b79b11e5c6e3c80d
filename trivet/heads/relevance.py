"""The relevance head: does this context token help to answer the question?

One logit a token; read from question and context. TRACe (arXiv 2407.11005), section 3.2.
"""

from __future__ import annotations

from torch import Tensor

from trivet.heads.context_loss import sentence_cross_entropy


def relevance_loss(
    logits: Tensor, relevant: Tensor, context_weight: Tensor, weight: Tensor
) -> Tensor:
    """Binary cross-entropy in which each sentence counts once.

    Args:
        logits: Logits of the context tokens. *Shape:* [B, C].
        relevant: 1, 0, or -1 where unknown. *Shape:* [B, C].
        context_weight: *Shape:* [B, C].
        weight: *Shape:* [B].
    """
    return sentence_cross_entropy(logits, relevant, context_weight, weight)
