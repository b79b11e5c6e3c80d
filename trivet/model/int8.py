"""From a traced fp32 graph to one for CPUs: int8 weights, activations quantized on the fly.

Per output channel, over the full range of int8. Heads, layer norms, attention and constants that
are not two-dimensional (position tables) stay in fp32: they are a small part of the work and carry
the answer. 22.7 million parameters come out as 23.5 MB.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.quantization.quant_utils import add_pre_process_metadata

# An embedding table with fewer rows is not worth a scale for each.
_FEWEST_ROWS = 1000


def quantize(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Return the graph in dynamic int8; ``graph`` itself is not changed."""
    copied = onnx.ModelProto()
    copied.CopyFrom(graph)
    _keep_apart(copied)
    _quantize_embeddings(copied)
    # Says that shapes are inferred and constants folded, as the tracer left them.
    add_pre_process_metadata(copied)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "int8.onnx"
        quantize_dynamic(
            copied,
            path,
            per_channel=True,
            reduce_range=False,
            weight_type=QuantType.QInt8,
            op_types_to_quantize=["MatMul"],
            nodes_to_exclude=_excluded(copied),
            # Operators of ONNX Runtime's own domain have no shape inference: their outputs are
            # taken for what they are, floats.
            extra_options={"MatMulConstBOnly": True, "DefaultTensorType": TensorProto.FLOAT},
        )
        return onnx.load(path)


def _excluded(graph: onnx.ModelProto) -> list[str]:
    """Name the products that stay in fp32: heads, and constants that are not matrices."""
    ranks = {tensor.name: len(tensor.dims) for tensor in graph.graph.initializer}
    return [
        node.name
        for node in graph.graph.node
        if node.op_type == "MatMul"
        and (node.name.startswith("heads.") or ranks.get(node.input[1], 2) != 2)
    ]


def _keep_apart(graph: onnx.ModelProto) -> None:
    """Keep ONNX Runtime from fusing a residual sum with the layer norm after it.

    Its fused kernel is slow on CPUs (ONNX Runtime 1.31): measured on a six-layer BERT, the whole
    int8 pass takes 1.2 (windows of 512) to 1.3 times (128) as long with it. It looks for ``Add``;
    ``Sum`` of two computes the same.
    """
    made_by = {name: node for node in graph.graph.node for name in node.output}
    for node in graph.graph.node:
        if node.op_type == "LayerNormalization" and node.input[0] in made_by:
            before = made_by[node.input[0]]
            if before.op_type == "Add":
                before.op_type = "Sum"


def _quantize_embeddings(graph: onnx.ModelProto) -> None:
    """Store large embedding tables as int8 with a scale for every row.

    ONNX Runtime's own quantizer gives a table one scale, so that its widest token sets the rounding
    of all.
    """
    tables = {
        tensor.name: tensor
        for tensor in graph.graph.initializer
        if tensor.data_type == TensorProto.FLOAT
        and len(tensor.dims) == 2
        and tensor.dims[0] >= _FEWEST_ROWS
    }
    readers = [
        (place, node)
        for place, node in enumerate(graph.graph.node)
        if node.op_type == "Gather" and node.input[0] in tables
    ]
    for place, node in reversed(readers):
        name, out = node.input[0], node.output[0]
        values = numpy_helper.to_array(tables[name])
        scale = np.abs(values).max(axis=1, keepdims=True).astype(np.float32) / 127
        rounded = np.rint(values / np.where(scale > 0, scale, 1)).astype(np.int8)
        graph.graph.initializer.extend(
            [
                numpy_helper.from_array(rounded, f"{out}_int8"),
                numpy_helper.from_array(scale, f"{out}_scale"),
            ]
        )
        ids = node.input[1]
        replacement = [
            helper.make_node("Gather", [f"{out}_int8", ids], [f"{out}_rows"]),
            helper.make_node("Gather", [f"{out}_scale", ids], [f"{out}_row_scales"]),
            helper.make_node("Cast", [f"{out}_rows"], [f"{out}_floats"], to=TensorProto.FLOAT),
            helper.make_node("Mul", [f"{out}_floats", f"{out}_row_scales"], [out]),
        ]
        del graph.graph.node[place]
        for offset, new in enumerate(replacement):
            new.name = f"{out}_dequantize_{offset}"
            graph.graph.node.insert(place + offset, new)
    used = {name for node in graph.graph.node for name in node.input}
    for name in tables.keys() - used:
        graph.graph.initializer.remove(tables[name])
