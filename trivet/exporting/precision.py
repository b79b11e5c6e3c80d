"""From a traced fp32 graph to one with 16-bit products: bf16 or fp16 where the work is.

TensorRT 11 knows no precision flags: an engine computes in what the graph says (strong typing). So
the casts are written into the graph here. Products of the encoder run in 16 bits, with the bias and
the GELU after them; layer norms, residual sums, softmax, heads and all joining stay in fp32. bf16
is the default: it has fp32's range at the same speed, where fp16 can overflow. fp16 rounds eight
times finer, and wins where nothing overflows (docs/deployment.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from trivet.records import BackendError

Half = Literal["bf16", "fp16"]

_TYPES: dict[Half, int] = {"bf16": TensorProto.BFLOAT16, "fp16": TensorProto.FLOAT16}
_PRODUCTS = frozenset({"MatMul", "Gemm", "Attention"})
# What only moves values, or runs at the end of a product: in the precision of its first input.
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
    """Return the graph with its large products in ``precision``; ``graph`` itself is not changed.

    Raises:
        BackendError: A weight does not fit in fp16, or an output would not be fp32.
    """
    copied = onnx.ModelProto()
    copied.CopyFrom(graph)
    _narrow_places(copied.graph)
    _Caster(copied.graph, precision).rewrite()
    return copied


def emulated(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Return a mixed graph for engines without 16-bit products: rounded alike, computed in fp32.

    Inputs and outputs of every 16-bit operator are rounded as they were; sums inside an operator
    are in fp32, as they are in a GPU's matrix units.
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
    replace_nodes(copied.graph, nodes)
    return copied


class _Caster:
    """Rewrites one graph in the order of its nodes."""

    def __init__(self, graph: onnx.GraphProto, precision: Half) -> None:
        self.graph = graph
        self.precision: Half = precision
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        self.types = _types(graph)
        self.half: set[str] = set()  # tensors that are in 16 bits by now
        self.made: set[str] = set()  # casts and rounded constants

    def rewrite(self) -> None:
        """Rewrite the graph in place; constants that nothing reads any more are dropped."""
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
                f"{', '.join(wrong)} would be answered in {self.precision}; outputs are fp32, made "
                "by heads and joining"
            )
        for value in self.graph.value_info:
            if value.name in self.half:
                value.type.tensor_type.elem_type = _TYPES[self.precision]
        replace_nodes(self.graph, nodes, self.constants)

    def _runs_half(self, node: onnx.NodeProto) -> bool:
        """Whether a node computes in 16 bits."""
        if node.name.startswith("heads."):
            return False
        if node.op_type in _PRODUCTS:
            return True
        if node.op_type in _FOLLOWERS:
            return node.input[0] in self.half
        if node.op_type == "Concat":
            return all(name in self.half for name in node.input)
        if node.op_type == "Add":  # a bias; a residual sum has no constant
            one, other = node.input
            return (one in self.half and other in self.constants) or (
                other in self.half and one in self.constants
            )
        return False

    def _convert_inputs(self, node: onnx.NodeProto, to_half: bool) -> Iterator[onnx.NodeProto]:
        """Make a node read its floats in its own precision; yield the casts that takes."""
        if node.op_type == "Attention" and to_half:
            others = [each for each in node.attribute if each.name != "softmax_precision"]
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


def _narrow_places(graph: onnx.GraphProto) -> None:
    """Keep int32 what was widened for ``GatherElements`` alone: half the memory of every layer.

    torch gathers by int64 only, so a constant of int32 is cast on its way; ONNX takes both.
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
        for name in widened:  # grows as what only moves places is passed through
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
    """Return the element type of every tensor whose type the graph states."""
    values = (*graph.input, *graph.output, *graph.value_info)
    types = {value.name: value.type.tensor_type.elem_type for value in values}
    types |= {node.output[0]: node.attribute[0].i for node in graph.node if node.op_type == "Cast"}
    return types | {tensor.name: tensor.data_type for tensor in graph.initializer}


def _cast(name: str, output: str, kind: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [name], [output], name=f"cast_{output}", to=kind)


def replace_nodes(
    graph: onnx.GraphProto,
    nodes: list[onnx.NodeProto],
    constants: dict[str, TensorProto] | None = None,
) -> None:
    """Put new nodes in a graph, and of ``constants`` those that some node reads."""
    used = {name for node in nodes for name in node.input}
    # The new graph is filled before the old one, which owns the parts, is emptied.
    new = onnx.GraphProto()
    new.node.extend(nodes)
    if constants is not None:
        new.initializer.extend(tensor for name, tensor in constants.items() if name in used)
        del graph.initializer[:]
    del graph.node[:]
    graph.MergeFrom(new)
