"""Rows of a few lengths, padded, for encoders of any kind."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def padded(
    lengths: Sequence[int], width: int | None = None, pad: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Return ids from 5 to 54, mask and segments of rows with so many real tokens."""
    width = max(lengths) if width is None else width
    mask = (torch.arange(width) < torch.tensor(lengths)[:, None]).long()
    ids = (torch.arange(mask.numel()).view_as(mask) * 7) % 50 + 5
    segments = (torch.arange(width) > width // 2).long().expand_as(mask)
    return torch.where(mask > 0, ids, pad), mask, segments * mask


def three(length: int, pad: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Return a row of a length, one of about half of it, and one of a single token."""
    return padded([length, length // 2 + 1, 1], pad=pad)
