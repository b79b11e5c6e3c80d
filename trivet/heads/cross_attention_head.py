"""A head over hidden states of context tokens that reads the response by one attention."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from trivet.heads.token_head import TokenHead

_HEADS, _WIDTH = 2, 32  # attention heads, and the width of each
_HIDDEN = -1e4  # score of a key that is not read: it vanishes after softmax


class CrossAttentionHead(nn.Module):
    """Hidden states that do not depend on the response to logits that do, always in fp32.

    Under prefix attention the states of contexts do not depend on the response. Utilization does:
    each token attends to the response once, and the classifier sees the state, what was read, and
    the largest score, which tells how well anything there fits.
    """

    def __init__(self, hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        width = _HEADS * _WIDTH
        self.project = nn.Linear(hidden, 3 * width)
        with torch.no_grad():  # like states attend to each other from the start
            self.project.weight[width : 2 * width].copy_(self.project.weight[:width])
        self.compare = nn.Linear(2 * width + _HEADS, width)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(hidden + width, 1)

    def forward(self, hidden: Tensor, is_read: Tensor) -> Tensor:
        """Return logits. *Shapes:* [N, L, H], [N, L] -> [N, L, 1].

        ``is_read`` is 1 at the response's tokens and the separator after them, and else 0.
        """
        hidden = hidden.float()
        query, key, value = (
            part.unflatten(-1, (_HEADS, _WIDTH)).transpose(1, 2)
            for part in self.project(hidden).chunk(3, dim=-1)
        )
        unread = (1.0 - is_read.float())[:, None, None, :] * _HIDDEN
        scores = query @ key.transpose(-1, -2) / math.sqrt(_WIDTH) + unread
        read = torch.softmax(scores, dim=-1) @ value
        best = scores.amax(dim=-1, keepdim=True)
        seen = torch.cat([query, read, best], dim=-1).transpose(1, 2).flatten(2)
        seen = nn.functional.gelu(self.compare(seen))
        logits: Tensor = self.classifier(self.dropout(torch.cat([hidden, seen], dim=-1)))
        return logits

    def copy_classifier(self, head: TokenHead) -> None:
        """Start from the classifier of a token head, as if nothing were read."""
        width = head.classifier.in_features
        with torch.no_grad():
            self.classifier.weight.zero_()
            self.classifier.weight[:, :width].copy_(head.classifier.weight)
            self.classifier.bias.copy_(head.classifier.bias)
