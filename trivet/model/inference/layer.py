"""Inference layer and attention shared by BERT, DeBERTa and MPNet.

Letters: N windows, L positions, H hidden width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from trivet.errors import WindowError

Form = Literal["portable", "attention", "runtime", "fused"]
"""Form of attention: matmuls and a softmax, for any backend; ONNX's ``Attention`` (opset 23), which
TensorRT fuses; the fastest one in ONNX Runtime; or torch's own fused function."""
# Forms for GPUs, which gather along rows.
BY_ROW = frozenset({"attention", "fused"})


class InferenceLayer(nn.Module):
    """An encoder layer without dropout, with its three projections fused into one matmul.

    The encoder computes the attention between ``project`` and ``finish``. ``projections`` are those
    to queries, keys and values of a layer of the library, ``output`` that of its attention's output
    and the layer norm after it, and ``scale`` is the factor of the queries.
    """

    def __init__(
        self,
        layer: Any,
        projections: Sequence[nn.Linear],
        output: tuple[nn.Linear, nn.LayerNorm],
        scale: float,
    ) -> None:
        super().__init__()
        query, key, value = projections
        self.project = nn.Linear(query.in_features, 3 * query.out_features)
        with torch.no_grad():
            self.project.weight.copy_(torch.cat([query.weight * scale, key.weight, value.weight]))
            self.project.bias.copy_(torch.cat([query.bias * scale, key.bias, value.bias]))
        self.attention_out, self.attention_norm = output
        self.widen = layer.intermediate.dense
        self.activation = layer.intermediate.intermediate_act_fn
        self.narrow = layer.output.dense
        self.output_norm = layer.output.LayerNorm

    def finish(self, attended: Tensor, hidden: Tensor) -> Tensor:
        """Return the layer's output. *Shapes:* [N, L, H] x 2 -> [N, L, H]."""
        hidden = self.attention_norm(self.attention_out(attended) + hidden)
        output: Tensor = self.output_norm(self.narrow(self.activation(self.widen(hidden))) + hidden)
        return output


def attend(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, form: Form) -> Tensor:
    """Return the attention output of scaled queries, with joined heads.

    The form ``attention`` writes one operator, ``fused`` calls one function, any other form writes
    matmuls and a softmax.

    *Shapes:* [N, heads, L, width] x 3, and a bias that is broadcastable to [N, heads, L, L]; for
    the form ``attention`` only its heads may be 1 -> [N, L, H].
    """
    if form == "attention":
        attended = torch.onnx.ops.attention(query, key, value, bias, scale=1.0)[0]
    elif form == "fused":
        attended = nn.functional.scaled_dot_product_attention(
            query, key, value, bias.to(query.dtype), scale=1.0
        )
    else:
        attended = torch.softmax(query @ key.transpose(-1, -2) + bias, dim=-1) @ value
    return attended.transpose(1, 2).flatten(2)


def refuse_longer(length: int, max_length: int) -> None:
    """Raise ``WindowError`` if windows are longer than the encoder's tables; not in a graph."""
    if not torch.compiler.is_exporting() and length > max_length:
        raise WindowError(
            f"a window of {length} positions exceeds the {max_length} this encoder was made for; "
            "make it with a larger max_length"
        )


def split_heads(projected: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values by head. *Shapes:* [N, L, 3H] -> [N, heads, L, width] x 3."""
    query, key, value = (
        part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in projected.chunk(3, dim=-1)
    )
    return query, key, value
