"""Learned weights of the heads' losses (Kendall, Gal and Cipolla, arXiv 1705.07115, eq. 10).

exp(-s) * loss + s / 2, where s is the logarithm of a head's variance: noisy heads count less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn


class LearnedWeights(nn.Module):
    """One log-variance per head, initially 0: a weight of 1."""

    def __init__(self, heads: Iterable[str]) -> None:
        super().__init__()
        self.log_variance = nn.ParameterDict({head: torch.zeros(()) for head in heads})

    def forward(self, losses: Mapping[str, Tensor]) -> Tensor:
        """Return the sum over heads of exp(-s) * loss + s / 2. *Shapes:* [] each -> [].

        A loss of 0 (no labels in the batch) is left out; otherwise its variance would shrink.
        """
        terms = []
        for head, loss in losses.items():
            log_variance = self.log_variance[head]
            term = torch.exp(-log_variance) * loss + log_variance / 2
            terms.append(term * (loss.detach() != 0))
        return torch.stack(terms).sum()

    def weights(self) -> dict[str, Tensor]:
        """Return the current weight of each head's loss. *Shape of each:* []."""
        return {head: torch.exp(-value.detach()) for head, value in self.log_variance.items()}
