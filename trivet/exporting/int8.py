"""Rewrite a traced fp32 graph to dynamic int8 for ONNX Runtime on CPUs.

Weights have one scale for every output channel. Activations have one for every token, not one for
the whole tensor as in ONNX Runtime's quantizer, so an answer does not depend on its batch.

Matmul weights use 7 bits: CPUs without VNNI add two products of bytes in 16 bits, where
2 x 255 x 64 fits. The eighth bit improves nothing on the embedded model (docs/experiments.md).

Heads, layer norms, attention and position tables stay in fp32.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from trivet.exporting.graph_files import replace_nodes

# Embedding tables with fewer rows stay in fp32.
_FEWEST_ROWS = 1000
_RUNTIME_DOMAIN = "com.microsoft"
# GELU never falls below -0.17, so 16 of the 256 steps are enough for its negative outputs.
_GELU_LOWEST = 0.17
_GELU_ZERO = 16
_ZERO = 128
# Largest stored value of a matmul weight, and of an embedding table.
_LARGEST_FACTOR = 64
_LARGEST_ENTRY = 127


def quantize(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Return the graph in dynamic int8 for ONNX Runtime; ``graph`` itself is not changed."""
    copied = onnx.ModelProto()
    copied.CopyFrom(graph)
    if _RUNTIME_DOMAIN not in {opset.domain for opset in copied.opset_import}:
        copied.opset_import.append(helper.make_opsetid(_RUNTIME_DOMAIN, 1))
    _Rewriter(copied.graph).rewrite()
    return copied


class _Rewriter:
    """Replaces matmuls and look-ups of one graph, keeping the order of its nodes."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.graph = graph
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        self.made_by = {name: node for node in graph.node for name in node.output}

    def rewrite(self) -> None:
        """Rewrite the graph in place; unused constants are dropped."""
        nodes: list[onnx.NodeProto] = []
        for node in self.graph.node:
            if self._is_matmul(node):
                nodes.extend(self._matmul(node))
            elif self._is_large_lookup(node):
                nodes.extend(self._lookup(node))
            else:
                nodes.append(node)
        replace_nodes(self.graph, nodes, self.constants)

    def _is_matmul(self, node: onnx.NodeProto) -> bool:
        """Return whether a node multiplies by a constant matrix, outside the heads."""
        if node.op_type != "MatMul" or node.name.startswith("heads."):
            return False
        return node.input[1] in self.constants and len(self.constants[node.input[1]].dims) == 2

    def _is_large_lookup(self, node: onnx.NodeProto) -> bool:
        """Return whether a node reads rows of a large embedding table."""
        table = self.constants.get(node.input[0]) if node.op_type == "Gather" else None
        return (
            table is not None
            and table.data_type == TensorProto.FLOAT
            and len(table.dims) == 2
            and table.dims[0] >= _FEWEST_ROWS
        )

    def _matmul(self, node: onnx.NodeProto) -> Iterable[onnx.NodeProto]:
        """Replace x @ W: quantize every row of x, multiply integers, scale rows and columns."""
        read, out = node.input[0], node.output[0]
        matrix = numpy_helper.to_array(self.constants[node.input[1]])
        rounded, scale = _round(matrix, axis=0, largest=_LARGEST_FACTOR)
        weight = self._constant(f"{out}_int8", rounded)
        columns = self._constant(f"{out}_scale", scale.reshape(-1))
        after_gelu = read in self.made_by and self.made_by[read].op_type == "Gelu"
        zero = _GELU_ZERO if after_gelu else _ZERO
        # Steps above the zero point, which the largest value of a row must fit in.
        steps = float(255 - zero) if after_gelu else 127.0
        # Smallest assumed range of a row, so that its negative values fit as well.
        floor = _GELU_LOWEST * steps / zero if after_gelu else 1e-6
        name = f"int8_from_{zero}"
        last = self._constant("int8_last_axis", np.array([-1], dtype=np.int64))
        unit = self._constant("int8_one", np.array(1, dtype=np.float32))
        lowest = self._constant(f"{name}_floor", np.array(floor, dtype=np.float32))
        wide = self._constant(f"{name}_steps", np.array(steps, dtype=np.float32))
        at_zero = self._constant(f"{name}_zero", np.array(zero, dtype=np.uint8))
        size = read
        if not after_gelu:
            size = f"{out}_size"
            yield _node("Abs", [read], size)
        yield _node("ReduceMax", [size, last], f"{out}_largest", keepdims=1)
        yield _node("Max", [f"{out}_largest", lowest], f"{out}_bound")
        yield _node("Div", [wide, f"{out}_bound"], f"{out}_shrink")
        yield _node("Div", [f"{out}_bound", wide], f"{out}_grow")
        yield _node("Mul", [read, f"{out}_shrink"], f"{out}_shrunk")
        yield _node("QuantizeLinear", [f"{out}_shrunk", unit, at_zero], f"{out}_steps")
        yield _node(
            "MatMulIntegerToFloat",
            [f"{out}_steps", weight, unit, columns, at_zero],
            f"{out}_shrunk_product",
            domain=_RUNTIME_DOMAIN,
        )
        yield _node("Mul", [f"{out}_shrunk_product", f"{out}_grow"], out)

    def _lookup(self, node: onnx.NodeProto) -> Iterable[onnx.NodeProto]:
        """Store an embedding table as int8 with one scale for every row."""
        table, out = node.input[0], node.output[0]
        entries = numpy_helper.to_array(self.constants[table])
        rounded, scale = _round(entries, axis=1, largest=_LARGEST_ENTRY)
        rows = self._constant(f"{table}_int8", rounded)
        scales = self._constant(f"{table}_scale", scale)
        yield _node("Gather", [rows, node.input[1]], f"{out}_rows")
        yield _node("Gather", [scales, node.input[1]], f"{out}_row_scales")
        yield _node("Cast", [f"{out}_rows"], f"{out}_floats", to=TensorProto.FLOAT)
        yield _node("Mul", [f"{out}_floats", f"{out}_row_scales"], out)

    def _constant(self, name: str, values: npt.NDArray[Any]) -> str:
        """Store a constant under ``name`` unless it exists, and return the name."""
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(values, name)
        return name


def _round(
    values: npt.NDArray[Any], axis: int, largest: int
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Round to int8 up to ``largest``, with one scale for each slice along the other axis."""
    scale = np.abs(values).max(axis=axis, keepdims=True).astype(np.float32) / np.float32(largest)
    rounded = np.rint(values / np.where(scale > 0, scale, 1)).astype(np.int8)
    return rounded, scale


def _node(kind: str, inputs: list[str], output: str, **attributes: Any) -> onnx.NodeProto:
    """Make a node named after its output."""
    return helper.make_node(kind, inputs, [output], name=f"{kind}_{output}", **attributes)
