"""The losses that the two context heads share: of tokens, and of an example's share."""

from __future__ import annotations

from torch import Tensor, nn

from trivet.heads.token_head import mean_of_known


def sentence_cross_entropy(
    logits: Tensor, marks: Tensor, context_weight: Tensor, weight: Tensor
) -> Tensor:
    """Binary cross-entropy of context tokens in which each sentence counts once.

    TRACe counts sentences; a long sentence is one sentence.

    Args:
        logits: *Shape:* [B, C].
        marks: 1, 0, or -1 where unknown. *Shape:* [B, C].
        context_weight: Sums to 1 over an example's tokens, 0 on padding. *Shape:* [B, C].
        weight: *Shape:* [B].
    """
    loss = nn.functional.binary_cross_entropy_with_logits(
        logits, marks.clamp(min=0).float(), reduction="none"
    )
    return mean_of_known(loss, context_weight * (marks >= 0), weight)


def share_error(shares: Tensor, true: Tensor, weight: Tensor) -> Tensor:
    """Squared error of an example's expected share of sentences: the measure itself.

    Tokens of one example err together, and a loss of tokens does not see how far their mean is off.

    Args:
        shares: In [0, 1]. *Shape:* [B].
        true: In [0, 1], NaN where unknown. *Shape:* [B].
        weight: *Shape:* [B].
    """
    known = ~true.isnan()
    error = (shares - true.nan_to_num()).square()
    return mean_of_known(error[:, None], known[:, None].float(), weight)
