"""Trace a model to an fp32 ONNX graph in which every dimension is dynamic."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import onnx
import torch
from torch import nn

from trivet.backends.profiles import Sizes, make_windows
from trivet.bundle.info import INPUTS, outputs_of
from trivet.errors import BackendError
from trivet.heads import DEFAULT_HEADS
from trivet.model.rag_model import as_tensors

OPSET = 20

# Sizes of the traced inputs: all different, none 0 or 1, which torch.export takes for constants.
_TRACED = Sizes(N=3, L=24, B=2, R=7, K=4, C=19, S=5)
_EXPORTER = "torch.onnx._internal.exporter"
# Metadata key under which the exporter records the module of a node.
_SCOPES = "pkg.torch.onnx.name_scopes"


def trace(
    model: nn.Module,
    vocab: int,
    opset: int = OPSET,
    *,
    heads: Collection[str] = DEFAULT_HEADS,
    fuse_sums: bool = False,
) -> onnx.ModelProto:
    """Trace a model in eval mode from ``Windows`` to ``Outputs``.

    Args:
        model: A model that takes the fields of ``Windows`` in order and returns ``Outputs``.
        vocab: Number of token ids.
        opset: Version of the standard operators; a model of the form ``attention`` needs
            ``graph_files.ATTENTION_OPSET``.
        heads: Heads of the model; the graph has no outputs of others.
        fuse_sums: Whether ONNX Runtime may fuse sums with layer norms, which is slow on CPUs.

    Returns:
        A graph whose inputs, outputs and dimensions carry the names of ``bundle.json``. The names
        of nodes that belong to a head begin with ``heads.``.

    Raises:
        BackendError: A dimension came out as a constant.
    """
    arguments = as_tensors(make_windows(_TRACED, vocab, seed=1))
    with _known_warnings(), torch.no_grad():
        program = torch.onnx.export(
            model,
            arguments,
            dynamo=True,
            opset_version=opset,
            input_names=[info.name for info in INPUTS],
            output_names=[info.name for info in outputs_of(heads)],
            dynamic_shapes=tuple(
                dict.fromkeys(range(len(info.dims)), torch.export.Dim.DYNAMIC) for info in INPUTS
            ),
            verbose=False,
        )
    assert program is not None
    graph: onnx.ModelProto = program.model_proto
    _name_heads(graph)
    _strip_traces(graph)
    if not fuse_sums:
        _prevent_sum_fusion(graph.graph)
    name_dimensions(graph, heads)
    return graph


def _name_heads(graph: onnx.ModelProto) -> None:
    """Prefix the names of head nodes with ``heads.``: quantization skips them."""
    for node in graph.graph.node:
        scopes = next((prop.value for prop in node.metadata_props if prop.key == _SCOPES), "")
        if "'heads" in scopes:
            node.name = f"heads.{node.name}"


def _strip_traces(graph: onnx.ModelProto) -> None:
    """Remove the exporter's metadata: source lines and paths of the exporting machine."""
    for holder in (graph, graph.graph, *graph.graph.node, *graph.graph.value_info):
        del holder.metadata_props[:]
    for holder in (*graph.graph.input, *graph.graph.output, *graph.graph.initializer):
        del holder.metadata_props[:]
    for node in graph.graph.node:
        node.doc_string = ""


def name_dimensions(graph: onnx.ModelProto, heads: Collection[str] = DEFAULT_HEADS) -> None:
    """Name every dimension of the inputs and outputs by its letter, but P, which is a constant.

    Raises:
        BackendError: The inputs or outputs are not those of ``bundle.json``, or a dimension of an
            input is a constant.
    """
    ends = {value.name: value for value in (*graph.graph.input, *graph.graph.output)}
    outputs = outputs_of(heads)
    if list(ends) != [info.name for info in (*INPUTS, *outputs)]:
        raise BackendError(f"the exported graph has the inputs and outputs {', '.join(ends)}")
    letters: dict[str, str] = {}
    for info in INPUTS:
        sizes = ends[info.name].type.tensor_type.shape.dim
        for letter, size in zip(info.dims, sizes, strict=True):
            if not size.dim_param:
                raise BackendError(
                    f"dimension {letter} of {info.name} came out as the constant {size.dim_value}; "
                    "some operation of the model fixes it"
                )
            letters[size.dim_param] = letter
    for value in graph.graph.value_info:
        for size in value.type.tensor_type.shape.dim:
            if size.dim_param:  # writing it unconditionally would erase a constant size
                size.dim_param = letters.get(size.dim_param, size.dim_param)
    for info in (*INPUTS, *outputs):
        sizes = ends[info.name].type.tensor_type.shape.dim
        for letter, size in zip(info.dims, sizes, strict=True):
            if letter != "P":
                size.dim_param = letter


def _prevent_sum_fusion(graph: onnx.GraphProto) -> None:
    """Replace ``Add`` before a layer norm by the equal ``Sum``, in place.

    ONNX Runtime 1.31 would fuse an ``Add`` with the layer norm in a kernel that is slow on CPUs.
    """
    made_by = {name: node for node in graph.node for name in node.output}
    for node in graph.node:
        if node.op_type == "LayerNormalization" and node.input[0] in made_by:
            before = made_by[node.input[0]]
            if before.op_type == "Add":
                before.op_type = "Sum"


@contextmanager
def _known_warnings() -> Iterator[None]:
    """Silence warnings about the internals of the exporter."""
    # Warnings for every operator of a missing torchvision, and for every output that is None.
    noisy = [logging.getLogger(f"{_EXPORTER}.{name}") for name in ("_registration", "_core")]
    levels = [log.level for log in noisy]
    for log in noisy:
        log.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        # torch calls a name that torch itself has deprecated.
        warnings.filterwarnings("ignore", message=".*LeafSpec.*", category=FutureWarning)
        try:
            yield
        finally:
            for log, level in zip(noisy, levels, strict=True):
                log.setLevel(level)
