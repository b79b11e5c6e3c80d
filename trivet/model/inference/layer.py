"""What BERT and DeBERTa layers share once nothing is trained any more.

Letters: N windows, L positions, H hidden width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

Form = Literal["portable", "attention", "runtime"]
"""How a graph attends: in products and a softmax, which any engine reads; in ONNX's own
``Attention`` (opset 23), which TensorRT fuses; or as ONNX Runtime does it fastest, in an operator
of its own where it has one."""


class InferenceLayer(nn.Module):
    """One encoder layer without dropout, its three projections fused into one product.

    The attention itself is the encoder's own; this holds what stands before and after it.

    Args:
        layer: The library's layer: ``attention``, ``intermediate`` and ``output`` as in BERT.
        projections: Its query, key and value projections.
        scale: Folded into the query projection, so that scores come out scaled.
    """

    def __init__(self, layer: Any, projections: Sequence[nn.Linear], scale: float) -> None:
        super().__init__()
        query, key, value = projections
        self.project = nn.Linear(query.in_features, 3 * query.out_features)
        with torch.no_grad():
            self.project.weight.copy_(torch.cat([query.weight * scale, key.weight, value.weight]))
            self.project.bias.copy_(torch.cat([query.bias * scale, key.bias, value.bias]))
        self.attention_out = layer.attention.output.dense
        self.attention_norm = layer.attention.output.LayerNorm
        self.widen = layer.intermediate.dense
        self.activation = layer.intermediate.intermediate_act_fn
        self.narrow = layer.output.dense
        self.output_norm = layer.output.LayerNorm

    def finish(self, attended: Tensor, hidden: Tensor) -> Tensor:
        """Return the layer's output. *Shapes:* [N, L, H] x 2 -> [N, L, H]."""
        hidden = self.attention_norm(self.attention_out(attended) + hidden)
        output: Tensor = self.output_norm(self.narrow(self.activation(self.widen(hidden))) + hidden)
        return output


def key_mask(attention_mask: Tensor, dtype: torch.dtype, masked: float) -> Tensor:
    """Return what is added to scores: 0 on real keys, ``masked`` on padding. *Shape:* [N, L]."""
    return (1.0 - attention_mask.to(dtype)) * masked


def attend(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, form: Form) -> Tensor:
    """Attend with scores that come out scaled, and join the heads.

    Args:
        query: *Shape:* [N, heads, L, width].
        key: Likewise.
        value: Likewise.
        bias: Added to the scores. *Shape:* [N, heads, L, L]; for the form ``attention`` the heads
            may be 1, for the others whatever can be broadcast.
        form: ``attention`` writes one operator; any other form products and a softmax.

    Returns:
        *Shape:* [N, L, H].
    """
    if form == "attention":
        attended = torch.onnx.ops.attention(query, key, value, bias, scale=1.0)[0]
    else:
        attended = torch.softmax(query @ key.transpose(-1, -2) + bias, dim=-1) @ value
    return attended.transpose(1, 2).flatten(2)
