"""Fit of the map of completeness to the scores of annotators, by least squares.

Completeness is the expected utilized share of what is expected to be relevant. That quotient ranks
answers, but its level is that of the two heads' errors, so a rising map corrects it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from trivet.bundle.info import CompletenessInfo
from trivet.measures.curves import FloatArray
from trivet.model.aggregate import logits_of
from trivet.thresholds.fit import LinearMap, minimize, probabilities
from trivet.thresholds.joining import HeadLogits

if TYPE_CHECKING:  # loaded late, as in ``fit``
    from torch import Tensor

_FEWEST = 30  # examples with a score
_SMALLEST = 1e-9


def expected_completeness(
    relevance: HeadLogits,
    utilization: HeadLogits,
    maps: tuple[LinearMap, LinearMap],
) -> FloatArray:
    """Return the completeness of each example as the model computes it, 0 without context. [B].

    Args:
        relevance: Logits of the relevance head.
        utilization: Logits of the utilization head for the same tokens.
        maps: Maps of the two heads.
    """
    relevant = probabilities(relevance, maps[0]).tokens
    utilized = probabilities(utilization, maps[1]).tokens
    sizes = np.bincount(relevance.sentence, minlength=len(relevance.row))
    shares = []
    for tokens in (np.minimum(relevant, utilized), relevant):
        sums = np.bincount(relevance.sentence, tokens, minlength=len(relevance.row))
        means = sums / sizes.clip(min=1)
        shares.append(np.bincount(relevance.row, means, minlength=len(relevance.weight)))
    both, whole = shares
    quotient: FloatArray = both / whole.clip(min=_SMALLEST)
    return quotient


def fit_completeness(
    predicted: FloatArray, scores: Sequence[float | None]
) -> CompletenessInfo | None:
    """Return the map of least squared error; None with fewer than 30 scores, or equal ones."""
    import torch

    true = np.array([np.nan if score is None else score for score in scores], dtype=np.float64)
    known = ~np.isnan(true)
    if known.sum() < _FEWEST or len(np.unique(true[known])) < 2:
        return None
    logits = torch.from_numpy(np.asarray(logits_of(predicted[known]), dtype=np.float64))
    target = torch.from_numpy(true[known])

    def error(values: Tensor) -> Tensor:
        return ((values[0].exp() * logits + values[1]).sigmoid() - target).square().mean()

    log_scale, shift = minimize(error, np.zeros(2), [(-5.0, 5.0), (None, None)])
    return CompletenessInfo(scale=float(np.exp(log_scale)), shift=float(shift))
