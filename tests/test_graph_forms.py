"""Forms of the exported graphs: nodes per layer, and equal answers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from tests.graphs import LAYERS, OPSETS, VOCAB, WINDOW, graph_of, model_of
from trivet.backends.profiles import Sizes, make_windows
from trivet.exporting.parity import FP32_TOLERANCE, grid
from trivet.model.inference.layer import Form
from trivet.model.rag_model import as_tensors

# Most nodes of a layer; 43 and 35 were measured on a prototype.
BUDGET: dict[Form, int] = {"portable": 45, "attention": 36}
# Operators that compute buckets of distances, or copy a table, at run time.
NEVER = {"Log", "Ceil", "Sign", "Range", "Tile", "Clip"}

pytestmark = [
    pytest.mark.parametrize("kind", ["deberta-v2", "bert", "mpnet", "modernbert"]),
    pytest.mark.parametrize("form", ["portable", "attention"]),
]


def last_layer(graph: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Return the nodes of the last layer, which come one after another."""
    nodes = list(graph.graph.node)
    ends = [at for at, node in enumerate(nodes) if node.op_type == "LayerNormalization"]
    assert len(ends) == 1 + 2 * LAYERS, "one after the embeddings, two in a layer"
    return nodes[ends[-3] + 1 : ends[-1] + 1]


def test_a_layer_stays_within_its_budget(kind: str, form: Form) -> None:
    kinds = Counter(node.op_type for node in last_layer(graph_of(kind, form)))
    assert kinds.total() <= BUDGET[form], kinds
    gathers = sum(count for name, count in kinds.items() if name.startswith("Gather"))
    assert gathers == (2 if kind == "deberta-v2" else 0)
    # Fused projections, output, widen, narrow; scores and values; and the two position tables.
    matmuls = 4 + 2 * (form == "portable") + 2 * (kind == "deberta-v2")
    assert kinds["MatMul"] == matmuls
    assert kinds["Attention"] == (form == "attention")


def test_nothing_is_computed_that_is_the_same_in_every_call(kind: str, form: Form) -> None:
    graph = graph_of(kind, form)
    assert not NEVER & {node.op_type for node in graph.graph.node}
    shapes = [tuple(tensor.dims) for tensor in graph.graph.initializer]
    assert shapes.count((WINDOW, WINDOW)) == (kind != "bert"), "one index for all layers"


def test_sizes_that_are_constant_stay_in_the_graph(kind: str, form: Form) -> None:
    graph = graph_of(kind, form).graph
    constants = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    noted = {
        value.name: [size.dim_value for size in value.type.tensor_type.shape.dim]
        for value in graph.value_info
        if value.name in constants
    }
    assert noted and noted == {name: constants[name] for name in noted}


def test_attention_is_one_operator_with_four_inputs(kind: str, form: Form) -> None:
    graph = graph_of(kind, form)
    onnx.checker.check_model(graph, full_check=True)
    assert [(opset.domain, opset.version) for opset in graph.opset_import] == [("", OPSETS[form])]
    attends = [node for node in graph.graph.node if node.op_type == "Attention"]
    assert len(attends) == LAYERS * (form == "attention")
    for node in attends:
        attributes = {
            attribute.name: onnx.helper.get_attribute_value(attribute)
            for attribute in node.attribute
        }
        assert attributes["scale"] == 1.0, "it is folded into the weights"
        assert len(node.input) == 4 and all(node.input), "queries, keys, values, mask"
        assert len(node.output) == 1, "no caches of keys and values"


def test_every_form_answers_as_the_library_does(kind: str, form: Form) -> None:
    graph = graph_of(kind, form).SerializeToString()
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    cases = (
        *grid(WINDOW),
        Sizes(N=4, L=47, B=3, R=5, K=2, C=9, S=2),
        Sizes(N=4, L=48, B=6, R=1, K=8, C=1, S=9),
        Sizes(N=2, L=2, B=1, R=64, K=2, C=7, S=1),
    )
    for seed, sizes in enumerate(cases):
        windows = make_windows(sizes, VOCAB, seed)
        with torch.inference_mode():
            wanted = model_of(kind)(*as_tensors(windows)).present()
        answers = session.run(list(wanted), windows._asdict())
        for name, answer in zip(wanted, answers, strict=True):
            off = np.abs(wanted[name].numpy() - answer).max()
            assert off <= FP32_TOLERANCE, (name, sizes)
