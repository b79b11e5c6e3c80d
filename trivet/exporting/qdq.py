"""From a traced fp32 graph to one whose largest products a card runs in int8 or fp8.

TensorRT's explicit quantization: a ``QuantizeLinear`` and a ``DequantizeLinear`` stand before the
left input of a product, a ``DequantizeLinear`` behind the stored weights, and TensorRT makes of the
three and the product one in 8 bits. Around them the graph is ``precision.mixed``. Quantized are the
products of every layer by a matrix of weights: fused projections, attention's output, widen, and in
fp8 narrow. Heads, embeddings, position tables and attention itself stay as they are.

All is symmetric, zero points are 0, as TensorRT wants it. Activations have one scale each, from
what ``ranges`` finds; for int8 ``smoothing`` makes their channels alike first. Weights have one for
every output channel in int8. In fp8 they have a single one: with more, TensorRT 11 was seen to
dequantize the weights and multiply in 16 bits (NVIDIA/TensorRT-Model-Connect, pull request 1386),
and numbers with an exponent of their own gain little by it.

ONNX Runtime's own quantizer (1.31) inserts nothing into a bf16 graph, without a word, and takes
fp8's scales from the spread of a normal distribution; hence the pass here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from trivet.exporting.precision import Half, mixed, replace_nodes
from trivet.records import BackendError

EightBit = Literal["int8", "fp8"]

_TYPES: dict[EightBit, int] = {"int8": TensorProto.INT8, "fp8": TensorProto.FLOAT8E4M3FN}
# The largest number of each; of int8 both ends are used alike.
_LARGEST: dict[EightBit, float] = {"int8": 127.0, "fp8": 448.0}


def large_products(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Return the products of layers by a matrix of weights, in the order of the graph.

    A layer is what comes after a layer norm and is no head: so a matrix that widens embeddings is
    none of them. Position tables have three dimensions, and products of attention no weights.
    """
    matrices = {tensor.name for tensor in graph.initializer if len(tensor.dims) == 2}
    normed: set[str] = set()
    found = []
    for node in graph.node:
        if node.op_type != "LayerNormalization" and not normed.intersection(node.input):
            continue
        normed.update(node.output)
        if node.op_type == "MatMul" and not node.name.startswith("heads."):
            left, right = node.input
            if left in normed and right in matrices:
                found.append(node)
    return found


def rounded_products(graph: onnx.GraphProto, kind: EightBit) -> list[onnx.NodeProto]:
    """Return those of the large products that run in 8 bits.

    In int8 what narrows stays as it is: it reads what a GELU gives, nearly all of it next to 0 and
    some of it far away, which steps of one size cannot hold. On the embedded model these products
    made more than half of what int8 lost.
    """
    products = large_products(graph)
    if kind == "fp8":
        return products
    shapes = {tensor.name: tensor.dims for tensor in graph.initializer}
    return [node for node in products if shapes[node.input[1]][0] <= shapes[node.input[1]][1]]


def quantized(
    graph: onnx.ModelProto, half: Half, kind: EightBit, ranges: Mapping[str, float]
) -> onnx.ModelProto:
    """Return the graph with its largest products in 8 bits and the others in ``half``.

    Args:
        graph: In fp32; it is not changed.
        half: What the inputs of these products come in, and what the other products run in.
        kind: ``int8``, or ``fp8`` with four bits of exponent (E4M3), for cards from sm_89 on.
        ranges: The largest size to be told apart of each product's left input, by the product's
            name; what is larger is cut.

    Raises:
        BackendError: A range is missing or not above 0, the graph has no such product, or a weight
            does not fit in fp16.
    """
    products = rounded_products(graph.graph, kind)
    if not products:
        raise BackendError("no product of a layer can be quantized: the graph has no layer norm")
    wrong = {node.name: ranges.get(node.name) for node in products}
    wrong = {name: size for name, size in wrong.items() if not (size and np.isfinite(size))}
    if wrong:
        raise BackendError(
            f"the ranges of {len(wrong)} of {len(products)} products are not above 0: {wrong}; "
            "give more rows"
        )
    changed = mixed(graph, half)
    _Quantizer(changed.graph, graph.graph, kind, ranges).rewrite()
    return changed


class _Quantizer:
    """Rewrites one mixed graph in the order of its nodes.

    Args:
        graph: The mixed graph.
        source: The fp32 graph it was made of: 16 bits of a weight are not rounded once more.
        kind: Of the eight bits.
        ranges: By product.
    """

    def __init__(
        self,
        graph: onnx.GraphProto,
        source: onnx.GraphProto,
        kind: EightBit,
        ranges: Mapping[str, float],
    ) -> None:
        self.graph, self.kind, self.ranges = graph, kind, ranges
        self.eight_bits = helper.tensor_dtype_to_np_dtype(_TYPES[kind])
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        exact = {tensor.name: tensor for tensor in source.initializer}
        self.weights = {node.name: exact[node.input[1]] for node in rounded_products(source, kind)}
        self.made: set[str] = set()

    def rewrite(self) -> None:
        """Rewrite the graph in place; constants that nothing reads any more are dropped."""
        nodes: list[onnx.NodeProto] = []
        for node in self.graph.node:
            if node.name in self.weights:
                nodes.extend(self._activation(node))
                nodes.extend(self._weight(node))
            nodes.append(node)
        replace_nodes(self.graph, nodes, self.constants)

    def _activation(self, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        """Round a product's left input; once where several products read it."""
        given, half = node.input[0], self.constants[node.input[1]].data_type
        rounded, restored = f"{given}_{self.kind}", f"{given}_{self.kind}_restored"
        node.input[0] = restored
        if restored in self.made:
            return
        self.made.add(restored)
        bound = np.array(self.ranges[node.name], np.float32)
        scale = self._constant(f"{given}_scale", _scale(bound, self.kind, half))
        zero = self._constant(f"zero_{self.kind}", np.zeros((), self.eight_bits))
        yield _node("QuantizeLinear", [given, scale, zero], rounded)
        yield _node("DequantizeLinear", [rounded, scale, zero], restored)
        self._state(rounded, _TYPES[self.kind])
        self._state(restored, half)

    def _weight(self, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        """Store a product's weights in 8 bits."""
        name, half = self.weights[node.name].name, self.constants[node.input[1]].data_type
        restored = f"{name}_{self.kind}_restored"
        node.input[1] = restored
        if restored in self.made:
            return
        self.made.add(restored)
        values: npt.NDArray[Any] = numpy_helper.to_array(self.weights[node.name])
        axis = 0 if self.kind == "int8" else None
        scale = _scale(np.abs(values).max(axis=axis), self.kind, half)
        largest = _LARGEST[self.kind]
        fitting = np.clip(values / scale.astype(np.float32), -largest, largest)
        if self.kind == "int8":
            fitting = np.rint(fitting)
        stored = self._constant(f"{name}_{self.kind}", fitting.astype(self.eight_bits))
        scales = self._constant(f"{name}_scale", scale)
        # Written down, though 0 is the default: ONNX Runtime 1.31 puts one of its own for all
        # channels where there is none, and then refuses it.
        zeros = self._constant(f"{name}_zero", np.zeros(scale.shape, self.eight_bits))
        # Of a single scale the axis means nothing.
        yield _node("DequantizeLinear", [stored, scales, zeros], restored, axis=1)
        self._state(restored, half)

    def _constant(self, name: str, values: npt.NDArray[Any]) -> str:
        """Store a constant under ``name``, once, and return the name."""
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(values, name)
        return name

    def _state(self, name: str, kind: int) -> None:
        """Write the type of a tensor into the graph, for whoever emulates it."""
        self.graph.value_info.append(helper.make_tensor_value_info(name, kind, None))


def _scale(bound: npt.NDArray[np.float32], kind: EightBit, half: int) -> npt.NDArray[Any]:
    """Return what one step is worth, in the type of the product, never 0."""
    dtype = helper.tensor_dtype_to_np_dtype(half)
    # The smallest number with all its digits.
    smallest = np.float32(2.0 ** (-14 if half == TensorProto.FLOAT16 else -126))
    scale: npt.NDArray[Any] = np.maximum(bound / np.float32(_LARGEST[kind]), smallest)
    return np.asarray(scale).astype(dtype)


def _node(kind: str, inputs: list[str], output: str, **attributes: Any) -> onnx.NodeProto:
    """Make a node that bears the name of what it makes."""
    return helper.make_node(kind, inputs, [output], name=f"{kind}_{output}", **attributes)
