"""Exact-match embedding: marks tokens that occur in both segments of a window.

Small encoders hardly learn to compare words. Exact match is a known input feature (Chen et al.,
arXiv 1704.00051, 3.2); it is computed in the graph from the ids.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ExactMatchEmbedding(nn.Module):
    """Embedding of a token's match in the other segment, added to the word embedding.

    With ``by_segment`` the response has rows of its own: an encoder without token types cannot
    tell it from the contexts otherwise. ``of_response`` tells that only the response is marked, so
    that contexts and question do not depend on it.
    """

    of_response = False

    def __init__(self, width: int, by_segment: bool = False) -> None:
        super().__init__()
        self.by_segment = by_segment
        self.kinds = nn.Embedding(6 if by_segment else 3, width)
        nn.init.normal_(self.kinds.weight, std=0.02)

    def forward(self, input_ids: Tensor, segment_ids: Tensor) -> Tensor:
        """Return the embeddings of the matches. *Shapes:* [N, L] x 2 -> [N, L, width]."""
        kinds = match_kinds(input_ids, segment_ids)
        if self.of_response:
            kinds = kinds * segment_ids
        added: Tensor = self.kinds(kinds + 3 * segment_ids if self.by_segment else kinds)
        return added


def match_kinds(input_ids: Tensor, segment_ids: Tensor) -> Tensor:
    """Return each token's match in the other segment of its window. *Shapes:* [N, L] x 2 -> [N, L].

    0: none; 1: the token alone; 2: the token with a neighbour, in the same order. Ids are below
    2^30, segments 0 or 1.
    """
    words, segment = input_ids.to(torch.int32), segment_ids.to(torch.int32)
    sides = (_after(words, -1), _before(words, -1))
    # One number for word and segment: equal if the same word is in the other segment.
    same = _meet(2 * words + segment, 2 * words + 1 - segment)
    # Ends of windows (-1) have no equal neighbour.
    after, before = (_meet(side, torch.where(side < 0, -2, side)) for side in sides)
    # fp32, since TensorRT lacks int8 here and integer reductions are slow on CPUs.
    kinds = torch.where(same, (after | before).to(torch.float32) + 1.0, 0.0).amax(dim=-1)
    return kinds.to(torch.int64)


def _after(values: Tensor, end: int) -> Tensor:
    """Return the value of the next token; ``end`` after the last."""
    return nn.functional.pad(values[:, 1:], (0, 1), value=end)


def _before(values: Tensor, end: int) -> Tensor:
    """Return the value of the token before; ``end`` before the first."""
    return nn.functional.pad(values[:, :-1], (1, 0), value=end)


def _meet(tokens: Tensor, others: Tensor) -> Tensor:
    """Compare all pairs. *Shapes:* [N, L] x 2 -> [N, L, L]."""
    return tokens[:, :, None] == others[:, None, :]
