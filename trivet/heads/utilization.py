"""The utilization head: did the response draw on this context token?

One logit a token; needs the response in the window. TRACe (arXiv 2407.11005), section 3.2.
"""

from __future__ import annotations

from torch import Tensor

from trivet.heads.context_loss import sentence_cross_entropy


def utilization_loss(
    logits: Tensor, utilized: Tensor, context_weight: Tensor, weight: Tensor
) -> Tensor:
    """Binary cross-entropy in which each sentence counts once.

    Args:
        logits: Logits of the context tokens. *Shape:* [B, C].
        utilized: 1, 0, or -1 where unknown. *Shape:* [B, C].
        context_weight: *Shape:* [B, C].
        weight: *Shape:* [B].
    """
    return sentence_cross_entropy(logits, utilized, context_weight, weight)
