"""Rewrite a traced fp32 graph to mixed precision (bf16 or fp16) for GPUs.

TensorRT 11 has no precision flags: an engine computes in the types of the graph (strong typing), so
the casts are written into the graph. Matmuls of the encoder run in 16 bits, with the bias and GELU
after them; layer norms, residual sums, softmax, heads and aggregation stay in fp32. bf16, the
default, has fp32's range; fp16 rounds eight times finer but can overflow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from trivet.errors import BackendError
from trivet.exporting.graph_files import replace_nodes

Half = Literal["bf16", "fp16"]

_TYPES: dict[Half, int] = {"bf16": TensorProto.BFLOAT16, "fp16": TensorProto.FLOAT16}
_MATMULS = frozenset({"MatMul", "Gemm", "Attention"})
# Operators that only move values, or follow a matmul: they keep the precision of their input.
_FOLLOWERS = frozenset(
    {
        "Expand",
        "Flatten",
        "GatherElements",
        "Gelu",
        "Identity",
        "Relu",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    }
)


def mixed(graph: onnx.ModelProto, precision: Half) -> onnx.ModelProto:
    """Return a copy of the graph with its large matmuls in ``precision``.

    Raises:
        BackendError: A weight does not fit in fp16, or an output would not be fp32.
    """
    copied = onnx.ModelProto()
    copied.CopyFrom(graph)
    _narrow_indices(copied.graph)
    _Caster(copied.graph, precision).rewrite()
    return copied


def emulated(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a mixed graph that emulates it on a CPU: rounded alike, computed in fp32.

    Inputs and outputs of every 16-bit operator are rounded as before; sums inside an operator are
    in fp32, as in a GPU's matrix units.
    """
    copied = onnx.ModelProto()
    copied.CopyFrom(graph)
    types = _types(copied.graph)
    halves = {name: kind for name, kind in types.items() if kind in _TYPES.values()}
    nodes: list[onnx.NodeProto] = []
    for node in copied.graph.node:
        if node.op_type == "Cast":
            nodes.append(node)
            continue
        for index, name in enumerate(node.input):
            if name in halves:
                nodes.append(_cast(name, f"{node.name}_in_{index}", TensorProto.FLOAT))
                node.input[index] = nodes[-1].output[0]
        nodes.append(node)
        for index, name in enumerate(node.output):
            if name in halves:
                node.output[index] = f"{node.name}_out_{index}"
                nodes.append(_cast(node.output[index], name, halves[name]))
    constants = {tensor.name: tensor for tensor in copied.graph.initializer}
    replace_nodes(copied.graph, nodes, constants)
    return copied


class _Caster:
    """Rewrites one graph in the order of its nodes."""

    def __init__(self, graph: onnx.GraphProto, precision: Half) -> None:
        self.graph = graph
        self.precision: Half = precision
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        self.types = _types(graph)
        self.half: set[str] = set()  # tensors that are in 16 bits so far
        self.made: set[str] = set()  # casts and rounded constants

    def rewrite(self) -> None:
        """Rewrite the graph in place; unused constants are dropped."""
        nodes: list[onnx.NodeProto] = []
        for node in self.graph.node:
            runs_half = self._runs_half(node)
            nodes.extend(self._convert_inputs(node, runs_half))
            nodes.append(node)
            if runs_half:
                self.half |= {name for name in node.output if self._is_float(name)}
        wrong = [value.name for value in self.graph.output if value.name in self.half]
        if wrong:
            raise BackendError(
                f"{', '.join(wrong)} would be in {self.precision}; outputs must be fp32"
            )
        for value in self.graph.value_info:
            if value.name in self.half:
                value.type.tensor_type.elem_type = _TYPES[self.precision]
        replace_nodes(self.graph, nodes, self.constants)

    def _runs_half(self, node: onnx.NodeProto) -> bool:
        """Return whether a node computes in 16 bits."""
        if node.name.startswith("heads."):
            return False
        if node.op_type in _MATMULS:
            return True
        if node.op_type in _FOLLOWERS:
            return node.input[0] in self.half
        if node.op_type == "Concat":
            return all(name in self.half for name in node.input)
        if node.op_type == "Add":  # a bias; a residual sum has no constant
            first, other = node.input
            return (first in self.half and other in self.constants) or (
                other in self.half and first in self.constants
            )
        return False

    def _convert_inputs(self, node: onnx.NodeProto, to_half: bool) -> Iterator[onnx.NodeProto]:
        """Make a node read floats in its own precision; yield the casts this needs."""
        if node.op_type == "Attention" and to_half:
            others = [
                attribute for attribute in node.attribute if attribute.name != "softmax_precision"
            ]
            del node.attribute[:]
            node.attribute.extend(others)
            node.attribute.append(helper.make_attribute("softmax_precision", TensorProto.FLOAT))
        for index, name in enumerate(node.input):
            if not self._is_float(name) or (name in self.half) == to_half:
                continue
            kind = self.precision if to_half else "fp32"
            converted = f"{name}_{kind}"
            if converted not in self.made:
                self.made.add(converted)
                if to_half and name in self.constants:
                    self.constants[converted] = self._round(self.constants[name], converted)
                else:
                    target = _TYPES[self.precision] if to_half else TensorProto.FLOAT
                    yield _cast(name, converted, target)
            node.input[index] = converted

    def _is_float(self, name: str) -> bool:
        return self.types.get(name) == TensorProto.FLOAT

    def _round(self, tensor: TensorProto, name: str) -> TensorProto:
        """Return a constant in 16 bits.

        Raises:
            BackendError: A value is too large for fp16.
        """
        values: npt.NDArray[Any] = numpy_helper.to_array(tensor)
        kind = helper.tensor_dtype_to_np_dtype(_TYPES[self.precision])
        with np.errstate(over="ignore"):
            rounded = values.astype(kind)
        if not np.isfinite(rounded.astype(np.float32)).all():
            raise BackendError(
                f"{tensor.name}: its largest value {np.abs(values).max():.3g} does not fit in "
                f"{self.precision}; export with --precision bf16"
            )
        return numpy_helper.from_array(rounded, name)


def _narrow_indices(graph: onnx.GraphProto) -> None:
    """Keep indices in int32 that are cast to int64 for ``GatherElements`` alone.

    torch only gathers by int64, ONNX by both; int32 halves the memory of the indices.
    """
    types = _types(graph)
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    for cast in graph.node:
        if cast.op_type != "Cast" or types.get(cast.input[0]) != TensorProto.INT32:
            continue
        widened, fitting = [cast.output[0]], True
        for name in widened:  # grows while operators that only move values are passed through
            for node in readers.get(name, ()):
                if node.op_type in ("Expand", "Transpose") and node.input[0] == name:
                    widened.append(node.output[0])
                elif node.op_type != "GatherElements" or node.input[1] != name:
                    fitting = False
        if fitting:
            cast.attribute[0].i = TensorProto.INT32
            for value in graph.value_info:
                if value.name in widened:
                    value.type.tensor_type.elem_type = TensorProto.INT32


def _types(graph: onnx.GraphProto) -> dict[str, int]:
    """Return the element type of every tensor that is typed in the graph."""
    values = (*graph.input, *graph.output, *graph.value_info)
    types = {value.name: value.type.tensor_type.elem_type for value in values}
    types |= {node.output[0]: node.attribute[0].i for node in graph.node if node.op_type == "Cast"}
    return types | {tensor.name: tensor.data_type for tensor in graph.initializer}


def _cast(name: str, output: str, kind: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [name], [output], name=f"cast_{output}", to=kind)
