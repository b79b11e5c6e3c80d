"""Write ONNX graphs to files and replace their nodes, on machines without torch too."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from trivet.bundle.bundle import EXTERNAL_SUFFIX

ATTENTION_OPSET = 23  # the first with the Attention operator

# Size limit of a protobuf message, and so of an ONNX file; the rest is for the nodes.
LARGEST_FILE = 2**31 - 2**26


def save_graph(graph: onnx.ModelProto, path: Path) -> list[Path]:
    """Write a graph, with its weights in a second file if they exceed one ONNX file.

    Args:
        graph: Graph, which loses its weights if they are written apart.
        path: File to write; the weights get its name with ``EXTERNAL_SUFFIX``.

    Returns:
        The files that were written.
    """
    if sum(map(_size, graph.graph.initializer)) <= LARGEST_FILE:
        onnx.save(graph, path)
        return [path]
    weights = path.with_name(path.name + EXTERNAL_SUFFIX)
    onnx.save(graph, path, save_as_external_data=True, location=weights.name)
    with weights.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    # The digest of the graph's file, by which engines are found, then depends on the weights too.
    helper.set_model_props(graph, {"weights_sha256": digest})
    onnx.save(graph, path)
    return [path, weights]


def _size(tensor: TensorProto) -> int:
    """Return the number of bytes of a tensor's values."""
    values: int = math.prod(tensor.dims)
    return values * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize


def replace_nodes(
    graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto], constants: Mapping[str, TensorProto]
) -> None:
    """Replace the nodes of a graph, and its constants by those of ``constants`` that are read."""
    used = {name for node in nodes for name in node.input}
    # The new graph is filled before the old one, which owns the parts, is emptied. They move one by
    # one, because a whole message is serialized for it, which may have 2 GB at most.
    new = onnx.GraphProto()
    new.node.extend(nodes)
    new.initializer.extend(tensor for name, tensor in constants.items() if name in used)
    del graph.node[:], graph.initializer[:]
    graph.node.extend(new.node)
    graph.initializer.extend(new.initializer)
