"""What is large in one channel of an activation moves into the weights, before both get 8 bits.

A few channels of what a product reads are far larger than the others, and under one scale for all
these have few steps left. So every channel is divided by a factor of its own, and the row of the
weights that it meets is multiplied by it: the product stays what it was. SmoothQuant (arXiv
2211.10438), eq. 3 and 4.

The division is a node of its own. It cannot be folded into the layer norm before it, as the paper
does: in BERT and DeBERTa what a layer norm gives is added to the residual as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from trivet.exporting.precision import replace_nodes
from trivet.exporting.qdq import rounded_products
from trivet.exporting.ranges import ChannelSizes

# The paper's alpha, how much of what is large the weights take. It has 0.5, and more for models
# with larger outliers; on the embedded model 0.8 to 1 are alike, and 0.5 far worse.
_SHARE = 0.85
_SMALLEST = 1e-5


def smoothed(
    graph: onnx.ModelProto, sizes: Mapping[str, ChannelSizes]
) -> tuple[onnx.ModelProto, dict[str, ChannelSizes]]:
    """Make the products of a graph that run in int8 easier to round.

    Args:
        graph: In fp32; it is not changed.
        sizes: Of what each of them reads, by the product's name, as ``ranges.find_channel_sizes``
            finds them.

    Returns:
        A graph that answers the same but for the last digits, and the sizes of what its products
        read.
    """
    changed = onnx.ModelProto()
    changed.CopyFrom(graph)
    smoothing = _Smoothing(changed.graph, sizes)
    smoothing.rewrite()
    return changed, smoothing.sizes


class _Smoothing:
    """Rewrites one graph in the order of its nodes.

    Attributes:
        sizes: Of what products read in the rewritten graph.
    """

    def __init__(self, graph: onnx.GraphProto, sizes: Mapping[str, ChannelSizes]) -> None:
        self.graph = graph
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        products = rounded_products(graph, "int8")
        self.products = {product.name for product in products}
        readers: dict[str, list[onnx.NodeProto]] = {}
        for product in products:
            readers.setdefault(product.input[0], []).append(product)
        self.factors = {
            value: _factors(sizes[of[0].name], [self._array(one.input[1]) for one in of])
            for value, of in readers.items()
        }
        self.sizes = {one.name: sizes[one.name] / self.factors[one.input[0]] for one in products}

    def rewrite(self) -> None:
        """Rewrite the graph in place; weights that nothing reads any more are dropped."""
        nodes: list[onnx.NodeProto] = []
        divided: set[str] = set()
        for node in self.graph.node:
            if node.name in self.products:
                value, weight = node.input
                factors = self.factors[value]
                node.input[0], node.input[1] = f"{value}_smoothed", f"{weight}_for_{value}"
                self._store(node.input[1], self._array(weight) * factors[:, None])
                if value not in divided:
                    divided.add(value)
                    self._store(f"{value}_shrink", np.reciprocal(factors))
                    name = node.input[0]
                    inputs = [value, f"{value}_shrink"]
                    nodes.append(helper.make_node("Mul", inputs, [name], name=f"Mul_{name}"))
            nodes.append(node)
        replace_nodes(self.graph, nodes, self.constants)

    def _array(self, name: str) -> npt.NDArray[Any]:
        return numpy_helper.to_array(self.constants[name])

    def _store(self, name: str, values: npt.NDArray[np.float32]) -> None:
        self.constants[name] = numpy_helper.from_array(values, name)


def _factors(sizes: ChannelSizes, weights: Sequence[npt.NDArray[np.float32]]) -> ChannelSizes:
    """Return what every channel is divided by; around 1, so that fp16 holds both sides."""
    largest = np.max([np.abs(weight).max(axis=1) for weight in weights], axis=0)
    logs = _SHARE * np.log(np.maximum(sizes, _SMALLEST))
    logs -= (1 - _SHARE) * np.log(np.maximum(largest, _SMALLEST))
    factors: ChannelSizes = np.exp(logs - logs.mean()).astype(np.float32)
    return factors
