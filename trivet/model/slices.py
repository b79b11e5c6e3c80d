"""Reading a batch in slices of windows of like length, which bounds memory and padding."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor, nn

from trivet.model.rag_model import RagModel, TokenLogits


def read_in_slices(
    model: RagModel, inputs: Sequence[Tensor], max_batch: int, heads: Collection[str] | None = None
) -> TokenLogits:
    """Run the encoder over at most ``max_batch`` windows of like length per call; join the logits.

    Padding beyond the longest window of a call is not read; its logits are 0. ``heads`` are those
    to compute, by default all. *Shape of each input:* [N, L]; the second is the attention mask.
    """
    lengths = inputs[1].sum(dim=-1)
    calls = -(-len(lengths) // max_batch)
    if calls <= 1:
        return model.read(*inputs, heads=heads)
    order = lengths.argsort(stable=True)
    parts = []
    for rows in order.tensor_split(calls):
        width = int(lengths[rows[-1]])
        parts.append(model.read(*(tensor[rows, :width] for tensor in inputs), heads=heads))

    def widen(logits: Tensor) -> Tensor:
        missing = inputs[0].shape[1] - logits.shape[1]
        return nn.functional.pad(logits, (0, 0) * (logits.ndim - 2) + (0, missing))

    back = order.argsort()
    return {name: torch.cat([widen(part[name]) for part in parts])[back] for name in parts[0]}
