"""Encoder calls over slices of a batch, with the gradients of one call."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from trivet.model.rag_model import RagModel, TokenLogits


def read_in_slices(
    model: RagModel, inputs: Sequence[Tensor], most: int, heads: Collection[str] | None = None
) -> TokenLogits:
    """Run the encoder over at most ``most`` windows per call and concatenate the logits.

    The backward pass computes a slice again, with the same dropout, since only its logits are kept;
    the last slice comes first there and keeps its activations. ``heads`` are those to compute, by
    default all. *Shape of each input:* [N, L].
    """
    calls = -(-len(inputs[0]) // most)
    if calls <= 1:
        return model.read(*inputs, heads=heads)
    slices = list(zip(*(tensor.tensor_split(calls) for tensor in inputs), strict=True))
    if torch.is_grad_enabled():
        parts = [
            checkpoint(model.read, *part, heads=heads, use_reentrant=False) for part in slices[:-1]
        ]
    else:
        parts = [model.read(*part, heads=heads) for part in slices[:-1]]
    parts.append(model.read(*slices[-1], heads=heads))
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
