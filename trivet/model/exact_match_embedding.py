"""Which tokens stand on both sides of a window: in the response, and in what it was made from.

A small encoder hardly learns to compare words by itself. An exact match as a feature of the input
is old and cheap (Chen et al., arXiv 1704.00051, 3.2); here it is computed in the graph, from the
ids.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

_KINDS = 3


class ExactMatchEmbedding(nn.Module):
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

    Every token meets every other, so what is L x L here is narrow, and is reduced once.

    Args:
        input_ids: Below 2^30.
        segment_ids: 0 or 1.

    Returns:
        0: not at all; 1: alone; 2: together with a neighbour, in the same order. *Shape:* [N, L].
    """
    words, segment = input_ids.to(torch.int32), segment_ids.to(torch.int32)
    # One number for word and segment: a token is found where the same word has the other segment.
    same = _meet(2 * words + segment, 2 * words + 1 - segment)
    beside = _meet_beyond(words[:, 1:], (0, 1)) | _meet_beyond(words[:, :-1], (1, 0))
    # In fp32, because int8 is unknown to TensorRT here and integers reduce slowly on CPUs.
    found = torch.where(same, beside.to(torch.float32) + 1.0, 0.0).amax(dim=-1)
    return found.to(torch.int64)


def _meet(tokens: Tensor, others: Tensor) -> Tensor:
    """Compare all with all. *Shapes:* [N, L] x 2 -> [N, L, L]."""
    return tokens[:, :, None] == others[:, None, :]


def _meet_beyond(neighbours: Tensor, edge: tuple[int, int]) -> Tensor:
    """Compare neighbours, where the ends of windows have none that could be equal to another."""
    pad = nn.functional.pad
    return _meet(pad(neighbours, edge, value=-1), pad(neighbours, edge, value=-2))
