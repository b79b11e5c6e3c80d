"""Which tokens stand on both sides of a window: in the response, and in what it was made from.

A small encoder hardly learns to compare words by itself. An exact match as a feature of the input
is old and cheap (Chen et al., arXiv 1704.00051, 3.2); here it is computed in the graph, from the
ids.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

_KINDS = 3


class MatchEmbedding(nn.Module):
    """What is added to a word's embedding for where else its window holds it.

    Args:
        width: Of the word embeddings.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.kinds = nn.Embedding(_KINDS, width)
        nn.init.normal_(self.kinds.weight, std=0.02)

    def forward(self, input_ids: Tensor, segment_ids: Tensor) -> Tensor:
        """Return what is added. *Shapes:* [N, L] x 2 -> [N, L, width]."""
        added: Tensor = self.kinds(match_kinds(input_ids, segment_ids))
        return added


def match_kinds(input_ids: Tensor, segment_ids: Tensor) -> Tensor:
    """Tell how each token is found in the other segment of its window. *Shapes:* [N, L] x 2.

    Returns:
        0: not at all; 1: alone; 2: together with a neighbour, in the same order. *Shape:* [N, L].
    """
    other = segment_ids[:, :, None] != segment_ids[:, None, :]
    same = (input_ids[:, :, None] == input_ids[:, None, :]) & other
    edge = torch.full_like(input_ids[:, :1], -1)
    beside = torch.zeros_like(same)
    for neighbours in (
        torch.cat([input_ids[:, 1:], edge], dim=1),
        torch.cat([edge, input_ids[:, :-1]], dim=1),
    ):
        inside = (neighbours >= 0)[:, :, None]
        beside = beside | (inside & (neighbours[:, :, None] == neighbours[:, None, :]))
    alone, together = (found.to(torch.int64).amax(dim=-1) for found in (same, same & beside))
    return alone + together
