"""16-bit graphs: matmuls in 16 bits, delicate operators in fp32, all readable by TensorRT."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.graphs import VOCAB, graph_of
from trivet.backends.profiles import Sizes, make_windows
from trivet.errors import BackendError
from trivet.exporting.precision import Half, emulated, mixed

# Operators that TensorRT's ONNX parser supports.
TABLE: dict[str, Any] = json.loads((Path(__file__).parent / "operators.json").read_text())
KIND_OF: dict[Half, int] = {"bf16": TensorProto.BFLOAT16, "fp16": TensorProto.FLOAT16}
HALVES: tuple[Half, ...] = ("bf16", "fp16")
FP32_ONLY = {"LayerNormalization", "Softmax", "Sigmoid", "ReduceMax", "ReduceMin", "ReduceSum"}


NAMES: dict[int, str] = {
    TensorProto.FLOAT: "FP32",
    TensorProto.FLOAT16: "FP16",
    TensorProto.BFLOAT16: "BF16",
    TensorProto.INT32: "INT32",
    TensorProto.INT64: "INT64",
    TensorProto.BOOL: "BOOL",
}


@pytest.fixture(
    params=[
        ("bert", "portable"),
        ("deberta-v2", "portable"),
        ("deberta-v2", "attention"),
        ("mpnet", "attention"),
        ("modernbert", "portable"),
    ]
)
def graph(request: pytest.FixtureRequest) -> onnx.ModelProto:
    """A traced fp32 graph of each encoder and form."""
    return graph_of(*request.param)


def types_of(graph: onnx.ModelProto) -> dict[str, int]:
    """Return the type of every tensor, as ONNX itself infers it."""
    bare = onnx.ModelProto()
    bare.CopyFrom(graph)
    del bare.graph.value_info[:]
    inferred = onnx.shape_inference.infer_shapes(bare, strict_mode=True).graph
    values = (*inferred.input, *inferred.output, *inferred.value_info)
    types = {value.name: value.type.tensor_type.elem_type for value in values}
    return types | {tensor.name: tensor.data_type for tensor in inferred.initializer}


def run(graph: onnx.ModelProto, sizes: Sizes) -> list[Any]:
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    windows = make_windows(sizes, VOCAB, seed=7)
    return list(session.run(None, windows._asdict()))


@pytest.mark.parametrize("precision", HALVES)
def test_matmuls_are_in_16_bits_and_delicate_operators_are_not(
    graph: onnx.ModelProto, precision: Half
) -> None:
    half = mixed(graph, precision)
    onnx.checker.check_model(half, full_check=True)
    types = types_of(half)
    matmuls = 0
    for node in half.graph.node:
        kinds = {types[name] for name in node.input if name}
        if node.op_type in FP32_ONLY or node.name.startswith("heads."):
            assert KIND_OF[precision] not in kinds, node.name
        elif node.op_type in ("MatMul", "Attention"):
            assert kinds == {KIND_OF[precision]}, node.name
            matmuls += 1
        elif node.op_type == "GatherElements":
            assert types[node.input[0]] == KIND_OF[precision], node.name
            assert types[node.input[1]] == TensorProto.INT32, node.name
    attention = any(node.op_type == "Attention" for node in half.graph.node)
    deberta = any(node.op_type == "GatherElements" for node in half.graph.node)
    # Four matmuls a layer, two of attention, two of positions.
    assert matmuls == 2 * (4 + (1 if attention else 2) + (2 if deberta else 0))
    for value in (*half.graph.input, *half.graph.output):
        assert value.type.tensor_type.elem_type in (TensorProto.INT64, TensorProto.FLOAT)
    names = [node.name for node in half.graph.node]
    assert len(set(names)) == len(names)
    before, after = kinds_of(graph).count("Cast"), kinds_of(half).count("Cast")
    # ModernBERT also rotates queries and keys.
    rotary = not attention and kinds_of(half).count("Split") > 2
    assert after - before <= 2 * (15 if rotary else 10), "casts in two layers"


@pytest.mark.parametrize(("precision", "most"), [("bf16", 0.01), ("fp16", 2e-3)])
@pytest.mark.parametrize(
    "sizes",
    [Sizes(3, 40, 2, 9, 2, 23, 3), Sizes(1, 48, 1, 5, 1, 40, 1), Sizes(2, 1, 1, 1, 2, 1, 1)],
)
def test_it_answers_as_fp32_does(
    graph: onnx.ModelProto, precision: Half, most: float, sizes: Sizes
) -> None:
    expected = run(graph, sizes)
    answers = run(emulated(mixed(graph, precision)), sizes)
    off = [float(np.abs(answer - two).max()) for answer, two in zip(expected, answers, strict=True)]
    assert all(np.isfinite(array).all() for array in answers)
    assert 0 < max(off) <= most


@pytest.mark.parametrize("kind", ["bert", "deberta-v2", "mpnet", "modernbert"])
def test_the_fp16_graph_runs_without_emulation(kind: str) -> None:
    sizes = Sizes(3, 40, 2, 9, 2, 23, 3)
    expected, answers = run(graph_of(kind), sizes), run(mixed(graph_of(kind), "fp16"), sizes)
    assert max(np.abs(a - b).max() for a, b in zip(expected, answers, strict=True)) <= 2e-3


@pytest.mark.parametrize("precision", [None, *HALVES])
def test_tensorrt_can_parse_every_operator(graph: onnx.ModelProto, precision: Half | None) -> None:
    emitted = graph if precision is None else mixed(graph, precision)
    types, table = types_of(emitted), TABLE
    constants = {tensor.name for tensor in emitted.graph.initializer}
    (opset,) = emitted.opset_import
    assert opset.domain == "" and table["opsets"][0] <= opset.version <= table["opsets"][1]
    for node in emitted.graph.node:
        assert node.op_type in table["operators"], node.op_type
        # The condition of Where is bool, indices and shapes are integers: only values count.
        values = node.input[1:] if node.op_type == "Where" else node.input[:1]
        for name in values:
            assert NAMES[types[name]] in table["operators"][node.op_type], (node.op_type, name)
        index = table["constant_input"].get(node.op_type)
        if index is not None and len(node.input) > index:
            assert node.input[index] in constants, node.name
        if node.op_type == "LayerNormalization":
            assert [name for name in node.output if name] == list(node.output[:1])
        if node.op_type == "Attention":
            names = {attribute.name for attribute in node.attribute}
            assert names <= {"scale", "softmax_precision"}


# Rules on graphs of a few nodes ---------------------------------------------------------------


def small(nodes: list[onnx.NodeProto], **constants: Any) -> onnx.ModelProto:
    """A graph from x [2, 2] to y [2, 2], fp32."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in "xy"]
    arrays = [numpy_helper.from_array(np.asarray(a, np.float32), n) for n, a in constants.items()]
    made = helper.make_graph(nodes, "small", ends[:1], ends[1:], arrays)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)])
    return onnx.shape_inference.infer_shapes(model)


def kinds_of(graph: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in graph.graph.node]


def test_a_bias_belongs_to_its_matmul_and_a_residual_sum_does_not() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="matmul"),
        helper.make_node("Add", ["a", "b"], ["c"], name="bias"),
        helper.make_node("Add", ["c", "x"], ["y"], name="residual"),
    ]
    half = mixed(small(nodes, w=np.eye(2), b=[0.5, 0.25]), "bf16")
    assert kinds_of(half) == ["Cast", "MatMul", "Add", "Cast", "Add"]
    assert half.graph.node[-1].input[1] == "x"
    stored = {tensor.name: tensor.data_type for tensor in half.graph.initializer}
    assert stored == {"w_bf16": TensorProto.BFLOAT16, "b_bf16": TensorProto.BFLOAT16}


def test_a_weight_too_large_for_fp16_is_named() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="matmul"),
        helper.make_node("Softmax", ["a"], ["y"], name="end"),
    ]
    graph = small(nodes, w=[[1e5, 0], [0, 1]])
    with pytest.raises(BackendError, match=r"w: its largest value 1e\+05 does not fit in fp16"):
        mixed(graph, "fp16")
    assert "w_bf16" in {tensor.name for tensor in mixed(graph, "bf16").graph.initializer}
