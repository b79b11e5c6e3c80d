"""Reading more windows than the memory holds at once, with the gradients of one single reading."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from trivet.model.rag_model import RagModel, TokenLogits


def read_in_slices(model: RagModel, inputs: Sequence[Tensor], most: int) -> TokenLogits:
    """Run the encoder over at most ``most`` windows a call, and put what the heads say together.

    Windows meet only when they are joined, so a slice may be read alone. Of a slice nothing is kept
    but its logits: it is read a second time, with the same dropout, when its gradient is asked for.
    The last slice is the first whose gradient is asked for, and keeps what it has.

    Args:
        model: Reads.
        inputs: Token ids, attention mask and segment ids. *Shape of each:* [N, L].
        most: Windows in a call of the encoder, >= 1.
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
