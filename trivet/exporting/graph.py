"""From a model to an ONNX graph with every dimension open, in fp32.

Traced with ``torch.export``: measured beside the older tracer on a six-layer BERT, its graph is as
fast, and it cannot bake a length into a reshape without saying so. The inputs are traced once, with
sizes that all differ, and no size of the trace is left in the graph.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import onnx
import torch
from torch import Tensor, nn

from trivet.backends.example_windows import Sizes, make_windows
from trivet.bundle.schema import INPUTS, OUTPUTS, TensorInfo
from trivet.model.rag_model import as_tensors
from trivet.records import BackendError

OPSET = 20
ATTENTION_OPSET = 23  # the first that knows Attention

# Sizes of the trace: all different, none 0 or 1, which torch.export would take for constants.
_TRACED = Sizes(N=3, L=24, B=2, R=7, K=4, C=19, S=5)
# Where the exporter says which module a node comes from.
_SCOPES = "pkg.torch.onnx.name_scopes"


def trace(
    model: nn.Module, vocab: int, opset: int = OPSET, *, sums_apart: bool = True
) -> onnx.ModelProto:
    """Trace a model in eval mode from ``Windows`` to ``Outputs``.

    Args:
        model: Takes the fields of ``Windows`` in order and returns ``Outputs``.
        vocab: How many token ids there are.
        opset: Version of the standard operators; a model of the form ``attention`` needs
            ``ATTENTION_OPSET``.
        sums_apart: Whether ONNX Runtime is kept from fusing sums with layer norms, which is slow.

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
            output_names=[info.name for info in OUTPUTS],
            dynamic_shapes=tuple(
                _open(info, tensor) for info, tensor in zip(INPUTS, arguments, strict=True)
            ),
            verbose=False,
        )
    assert program is not None
    graph: onnx.ModelProto = program.model_proto
    _name_heads(graph)
    _strip_traces(graph)
    if sums_apart:
        _keep_sums_apart(graph.graph)
    name_dimensions(graph)
    return graph


def _open(info: TensorInfo, tensor: Tensor) -> dict[int, torch.export.Dim]:
    """Declare every dimension of an input dynamic."""
    assert tensor.dim() == len(info.dims)
    return dict.fromkeys(range(tensor.dim()), torch.export.Dim.DYNAMIC)


def _name_heads(graph: onnx.ModelProto) -> None:
    """Mark what belongs to a head by its name, for the quantizer to leave it alone."""
    for node in graph.graph.node:
        scopes = next((each.value for each in node.metadata_props if each.key == _SCOPES), "")
        if "'heads" in scopes:
            node.name = f"heads.{node.name}"


def _strip_traces(graph: onnx.ModelProto) -> None:
    """Remove the exporter's notes: source lines and paths of the machine that exported."""
    for holder in (graph, graph.graph, *graph.graph.node, *graph.graph.value_info):
        del holder.metadata_props[:]
    for holder in (*graph.graph.input, *graph.graph.output, *graph.graph.initializer):
        del holder.metadata_props[:]
    for node in graph.graph.node:
        node.doc_string = ""


def name_dimensions(graph: onnx.ModelProto) -> None:
    """Give every dimension of the inputs and outputs its letter.

    Raises:
        BackendError: The inputs or outputs are not those of ``bundle.json``, or a dimension of an
            input is a constant.
    """
    ends = {value.name: value for value in (*graph.graph.input, *graph.graph.output)}
    if list(ends) != [info.name for info in (*INPUTS, *OUTPUTS)]:
        raise BackendError(f"the graph came out with the inputs and outputs {', '.join(ends)}")
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
            if size.dim_param:  # to write it would erase a constant size
                size.dim_param = letters.get(size.dim_param, size.dim_param)
    for info in (*INPUTS, *OUTPUTS):
        sizes = ends[info.name].type.tensor_type.shape.dim
        for letter, size in zip(info.dims, sizes, strict=True):
            size.dim_param = letter


def _keep_sums_apart(graph: onnx.GraphProto) -> None:
    """Keep ONNX Runtime from fusing a sum with the layer norm after it, in place.

    Its fused kernel is slow on CPUs (ONNX Runtime 1.31). It looks for ``Add``; ``Sum`` of two
    computes the same.
    """
    made_by = {name: node for node in graph.node for name in node.output}
    for node in graph.node:
        if node.op_type == "LayerNormalization" and node.input[0] in made_by:
            before = made_by[node.input[0]]
            if before.op_type == "Add":
                before.op_type = "Sum"


@contextmanager
def _known_warnings() -> Iterator[None]:
    """Silence what the exporter says about its own inside."""
    registration = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = registration.level
    registration.setLevel(logging.ERROR)  # it warns of every operator of a missing torchvision
    with warnings.catch_warnings():
        # torch's own tree code calls a name that torch itself has deprecated.
        warnings.filterwarnings("ignore", message=".*LeafSpec.*", category=FutureWarning)
        try:
            yield
        finally:
            registration.setLevel(level)
