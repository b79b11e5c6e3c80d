"""Losses against the logits of a teacher on the same windows, also where rows have no labels.

Distillation (Hinton et al., arXiv 1503.02531, 2) without a temperature: the teacher's probabilities
are the targets. Each loss is a sum over examples, as in ``context_loss``.
"""

from __future__ import annotations

from torch import Tensor, nn

from trivet.heads.token_head import sum_of_means


def class_loss(logits: Tensor, teacher: Tensor, shown: Tensor, weight: Tensor) -> Tensor:
    """Return the cross-entropy of classes in each window.

    ``shown`` tells which copies of the response tokens there are.
    *Shapes:* [B, R, K, 3] x 2, [B, R, K], [B] -> [].
    """
    loss = -(teacher.softmax(-1) * logits.log_softmax(-1)).sum(-1)
    return sum_of_means(loss.flatten(1), shown.float().flatten(1), weight)


def mark_loss(logits: Tensor, teacher: Tensor, context_weight: Tensor, weight: Tensor) -> Tensor:
    """Return the binary cross-entropy of context tokens. *Shapes:* [B, C] x 3, [B] -> []."""
    loss = nn.functional.binary_cross_entropy_with_logits(
        logits, teacher.sigmoid(), reduction="none"
    )
    return sum_of_means(loss, context_weight, weight)


def pair_loss(
    logits: Tensor, teacher: Tensor, real: Tensor, example: Tensor, weight: Tensor
) -> Tensor:
    """Return the binary cross-entropy of pairs of sentences, which an example's real pairs share.

    *Shapes:* [N, S, X] x 3, [N], [B] -> [].
    """
    loss = nn.functional.binary_cross_entropy_with_logits(
        logits, teacher.sigmoid(), reduction="none"
    )
    sums, counts = (
        weight.new_zeros(len(weight)).index_add(0, example, each.sum(dim=(1, 2)).to(weight))
        for each in (loss * real, real)
    )
    return (sums / counts.clamp(min=1) * weight).sum()
