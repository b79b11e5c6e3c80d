"""Losses of the heads on contexts; relevance and utilization: TRACe (arXiv 2407.11005), 3.2.

Both have one logit per context token. Relevance: the token helps to answer the question.
Utilization: the response draws on the token. Evidence has one logit per pair of a response sentence
and a context sentence. Each loss is a sum over examples.
"""

from __future__ import annotations

from torch import Tensor, nn

from trivet.heads.token_head import sum_of_means


def sentence_cross_entropy(
    logits: Tensor, marks: Tensor, context_weight: Tensor, weight: Tensor
) -> Tensor:
    """Return the binary cross-entropy of context tokens. *Shapes:* [B, C] x 3, [B] -> [].

    Marks are 1, 0, or -1 where unknown; by the context weights each sentence counts once.
    """
    loss = nn.functional.binary_cross_entropy_with_logits(
        logits, marks.clamp(min=0).float(), reduction="none"
    )
    return sum_of_means(loss, context_weight * (marks >= 0), weight)


def evidence_cross_entropy(
    logits: Tensor, supports: Tensor, share: Tensor, example: Tensor, weight: Tensor
) -> Tensor:
    """Return the binary cross-entropy of pairs. *Shapes:* [N, S, X] x 3, [N], [B] -> [].

    The arguments but the first and the last are fields of ``data.evidence_pairs.EvidencePairs``.
    """
    loss = nn.functional.binary_cross_entropy_with_logits(logits, supports, reduction="none")
    return ((loss * share).sum(dim=(1, 2)) * weight[example]).sum()


def share_error(shares: Tensor, true: Tensor, weight: Tensor) -> Tensor:
    """Return the squared error of expected shares of sentences. *Shapes:* [B] x 3 -> [].

    Errors of an example's tokens are correlated; a loss of tokens ignores the error of their mean.
    True shares are NaN where unknown.
    """
    known = ~true.isnan()
    error = (shares - true.nan_to_num()).square()
    return sum_of_means(error[:, None], known[:, None].float(), weight)
