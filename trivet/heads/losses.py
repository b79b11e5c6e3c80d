"""Losses of the heads on contexts, and losses of all heads against a teacher; sums over examples.

Relevance and utilization: TRACe (arXiv 2407.11005), 3.2. Both have one logit per context token.
Relevance: the token helps to answer the question. Utilization: the response draws on the token.
Evidence has one logit per pair of a response sentence and a context sentence.

Against a teacher: distillation (Hinton et al., arXiv 1503.02531, 2) without a temperature; its
probabilities on the same windows are the targets, also where rows have no labels. The gradients of
two heads are compared by their cosine (Yu et al., arXiv 2001.06782, 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import cast

import torch
from torch import Tensor, nn

from trivet.heads.token_head import sum_of_means


def sentence_cross_entropy(
    logits: Tensor, marks: Tensor, context_weight: Tensor, weight: Tensor
) -> Tensor:
    """Return the binary cross-entropy of context tokens. *Shapes:* [B, C] x 3, [B] -> [].

    Marks are in [0, 1], or -1 where unknown; by the context weights each sentence counts once.
    """
    loss = nn.functional.binary_cross_entropy_with_logits(
        logits, marks.clamp(min=0).float(), reduction="none"
    )
    return sum_of_means(loss, context_weight * (marks >= 0), weight)


def evidence_cross_entropy(
    logits: Tensor, supports: Tensor, share: Tensor, example: Tensor, weight: Tensor
) -> Tensor:
    """Return the binary cross-entropy of pairs. *Shapes:* [N, S, X] x 3, [N], [B] -> [].

    The arguments but the first and the last are fields of ``labelled.labels.EvidencePairs``.
    """
    loss = nn.functional.binary_cross_entropy_with_logits(logits, supports, reduction="none")
    return ((loss * share).sum(dim=(1, 2)) * weight[example]).sum()


def similarity_error(
    logits: Tensor, cosine: Tensor, context_weight: Tensor, weight: Tensor
) -> Tensor:
    """Return the squared error of similarities of question and context sentences.

    A cosine of 0 is the logit -3, and one of 1 the logit 5; cosines are NaN where unknown. By the
    context weights each sentence counts once. *Shapes:* [B, C] x 3, [B] -> [].
    """
    known = ~cosine.isnan()
    error = ((logits + 3) / 8 - cosine.nan_to_num()).square()
    return sum_of_means(error, context_weight * known, weight)


def share_error(shares: Tensor, true: Tensor, weight: Tensor) -> Tensor:
    """Return the squared error of expected shares of sentences. *Shapes:* [B] x 3 -> [].

    Errors of an example's tokens are correlated; a loss of tokens ignores the error of their mean.
    True shares are NaN where unknown.
    """
    known = ~true.isnan()
    error = (shares - true.nan_to_num()).square()
    return sum_of_means(error[:, None], known[:, None].float(), weight)


def class_loss(logits: Tensor, teacher: Tensor, shown: Tensor, weight: Tensor) -> Tensor:
    """Return the cross-entropy of the teacher's classes in each window.

    ``shown`` tells which copies of the response tokens there are.
    *Shapes:* [B, R, K, 3] x 2, [B, R, K], [B] -> [].
    """
    loss = -(teacher.softmax(-1) * logits.log_softmax(-1)).sum(-1)
    return sum_of_means(loss.flatten(1), shown.float().flatten(1), weight)


def gradient_cosines(
    losses: Mapping[str, Tensor], parameters: Iterable[nn.Parameter]
) -> dict[str, Tensor]:
    """Return the cosine of each pair of heads, ``support_relevance`` and so on, in [-1, 1].

    Below 0, a step that helps one head harms the other. Only parameters that every head's loss
    reaches count. Heads with a loss of 0 are left out. The parameters' gradients and the graph are
    left unchanged.
    """
    asked = [parameter for parameter in parameters if parameter.requires_grad]
    by_head: dict[str, tuple[Tensor | None, ...]] = {
        head: torch.autograd.grad(loss, asked, retain_graph=True, allow_unused=True)
        for head, loss in losses.items()
        if loss.detach() != 0
    }
    shared = [
        index
        for index in range(len(asked))
        if all(gradients[index] is not None for gradients in by_head.values())
    ]
    flat = {
        head: torch.cat([cast(Tensor, gradients[index]).flatten().float() for index in shared])
        for head, gradients in by_head.items()
        if shared
    }
    return {
        f"{head}_{other}": nn.functional.cosine_similarity(flat[head], flat[other], dim=0)
        for head, other in combinations(flat, 2)
    }
