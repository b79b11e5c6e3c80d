"""Encoder calls over slices of a batch, with the gradients of one call."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from trivet.model.rag_model import RagModel, TokenLogits


def read_in_slices(model: RagModel, inputs: Sequence[Tensor], most: int) -> TokenLogits:
    """Run the encoder over at most ``most`` windows per call and concatenate the logits.

    Only the logits of a slice are kept: it is computed again, with the same dropout, in the
    backward pass. The last slice comes first there and keeps its activations.

    Args:
        model: Model.
        inputs: Token ids, attention mask and segment ids. *Shape of each:* [N, L].
        most: Windows per call, >= 1.
    """
    calls = -(-len(inputs[0]) // most)
    if calls <= 1:
        return model.read(*inputs)
    slices = list(zip(*(tensor.tensor_split(calls) for tensor in inputs), strict=True))
    parts: list[TokenLogits] = []
    for number, part in enumerate(slices, start=1):
        if number < calls and torch.is_grad_enabled():
            parts.append(checkpoint(model.read, *part, use_reentrant=False))
        else:
            parts.append(model.read(*part))
    return TokenLogits(*(torch.cat(pieces) for pieces in zip(*parts, strict=True)))
