"""Losses of the relevance and utilization heads: TRACe (arXiv 2407.11005), section 3.2.

Both heads have one logit per context token. Relevance: the token helps to answer the question.
Utilization: the response draws on the token.
"""

from __future__ import annotations

from torch import Tensor, nn

from trivet.heads.token_head import mean_of_known


def sentence_cross_entropy(
    logits: Tensor, marks: Tensor, context_weight: Tensor, weight: Tensor
) -> Tensor:
    """Return the binary cross-entropy of context tokens, in which each sentence counts once.

    Args:
        logits: Logits of the context tokens. *Shape:* [B, C].
        marks: Labels 1, 0, or -1 where unknown. *Shape:* [B, C].
        context_weight: Token weights; sum to 1 per example, 0 on padding. *Shape:* [B, C].
        weight: Example weights. *Shape:* [B].
    """
    loss = nn.functional.binary_cross_entropy_with_logits(
        logits, marks.clamp(min=0).float(), reduction="none"
    )
    return mean_of_known(loss, context_weight * (marks >= 0), weight)


def share_error(shares: Tensor, true: Tensor, weight: Tensor) -> Tensor:
    """Return the squared error of each example's expected share of sentences.

    Errors of an example's tokens are correlated; a loss of tokens ignores the error of their mean.

    Args:
        shares: Predicted shares in [0, 1]. *Shape:* [B].
        true: True shares in [0, 1], NaN where unknown. *Shape:* [B].
        weight: Example weights. *Shape:* [B].
    """
    known = ~true.isnan()
    error = (shares - true.nan_to_num()).square()
    return mean_of_known(error[:, None], known[:, None].float(), weight)
