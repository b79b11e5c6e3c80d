"""Products in eight bits: of layers, symmetric, and nothing else; and the ranges they need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from trivet.backends.example_windows import Sizes, make_windows
from trivet.data.windows import Windows
from trivet.exporting.precision import Half, emulated, mixed
from trivet.exporting.qdq import EightBit, large_products, quantized, rounded_products
from trivet.exporting.ranges import find_channel_sizes
from trivet.model.aggregate import Outputs
from trivet.records import BackendError

KINDS: tuple[EightBit, ...] = ("int8", "fp8")
STORED: dict[EightBit, int] = {"int8": TensorProto.INT8, "fp8": TensorProto.FLOAT8E4M3FN}
LAYERS = 2
# int8 leaves what narrows in 16 bits.
IN_A_LAYER: dict[EightBit, int] = {"int8": 3, "fp8": 4}


def calls() -> list[Windows]:
    return [make_windows(Sizes(3, 40, 2, 9, 2, 23, 3), 300, seed) for seed in range(4)]


def run(graph: onnx.ModelProto, windows: Windows) -> Outputs:
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return Outputs(*session.run(list(Outputs._fields), windows._asdict()))


@pytest.fixture(scope="session")
def ranges(graph: onnx.ModelProto) -> Mapping[str, float]:
    sizes = find_channel_sizes(graph, calls(), threads=1)
    return {name: float(of.max()) for name, of in sizes.items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("half", ["bf16", "fp16"])
def test_products_of_layers_are_quantized_and_nothing_else(
    graph: onnx.ModelProto,
    ranges: Mapping[str, float],
    kind: EightBit,
    half: Half,
    types_of: Callable[[onnx.ModelProto], dict[str, int]],
    check_operators: Callable[[onnx.ModelProto], None],
) -> None:
    eight_bits = quantized(graph, half, kind, ranges)
    onnx.checker.check_model(eight_bits, full_check=True)
    check_operators(eight_bits)
    before = Counter(node.op_type for node in mixed(graph, half).graph.node)
    after = Counter(node.op_type for node in eight_bits.graph.node)
    assert after - before == {
        "QuantizeLinear": IN_A_LAYER[kind] * LAYERS,
        "DequantizeLinear": 2 * IN_A_LAYER[kind] * LAYERS,
    }
    assert not before - after
    types = types_of(eight_bits)
    restored = {
        name: node
        for node in eight_bits.graph.node
        for name in node.output
        if node.op_type == "DequantizeLinear"
    }
    for node in eight_bits.graph.node:
        if len(restored.keys() & set(node.input)):
            assert node.op_type == "MatMul" and not node.name.startswith("heads.")
            assert set(node.input) <= restored.keys(), "both sides, or it is no product in 8 bits"
            assert types[restored[node.input[1]].input[0]] == STORED[kind]
    # What is read in 8 bits comes and goes in the precision of the other products.
    half_type = {"bf16": TensorProto.BFLOAT16, "fp16": TensorProto.FLOAT16}[half]
    assert {types[name] for name in restored} == {half_type}


@pytest.mark.parametrize("kind", KINDS)
def test_scales_are_symmetric_and_fit_the_weights(
    graph: onnx.ModelProto, ranges: Mapping[str, float], kind: EightBit
) -> None:
    eight_bits = quantized(graph, "bf16", kind, ranges).graph
    constants = {each.name: numpy_helper.to_array(each) for each in eight_bits.initializer}
    exact = {each.name: numpy_helper.to_array(each) for each in graph.graph.initializer}
    products = rounded_products(graph.graph, kind)
    columns = {node.input[1]: exact[node.input[1]] for node in products}
    stored = {name.removesuffix(f"_{kind}"): name for name in constants if name.endswith(kind)}
    assert columns.keys() == stored.keys() - {"zero"} and len(columns) == IN_A_LAYER[kind] * LAYERS
    for name, weights in columns.items():
        rounded, scale = constants[stored[name]], constants[f"{name}_scale"].astype(np.float32)
        assert scale.shape == ((weights.shape[1],) if kind == "int8" else ())
        assert (scale > 0).all()
        largest = np.abs(rounded.astype(np.float32)).max(axis=0 if kind == "int8" else None)
        # Every column uses all of its steps, but for the rounding of a scale to 8 bits.
        top = 127 if kind == "int8" else 448
        assert (largest <= top).all() and (largest >= 0.99 * top - 1).all()
        # fp8's are not all alike: of its 448 the last are 32 apart.
        step = scale if kind == "int8" else 32 * scale
        off = np.abs(rounded.astype(np.float32) * scale - weights)
        # Half a step, and what the largest is cut by where its scale was rounded down.
        assert (off <= 0.5 * step + np.abs(weights) / 250).all()


@pytest.mark.parametrize("kind", KINDS)
def test_heads_embeddings_and_position_tables_stay_as_they_were(
    graph: onnx.ModelProto, ranges: Mapping[str, float], kind: EightBit
) -> None:
    half, eight_bits = mixed(graph, "bf16").graph, quantized(graph, "bf16", kind, ranges).graph
    replaced = {f"{node.input[1]}_bf16" for node in rounded_products(graph.graph, kind)}
    kept = {tensor.name: tensor for tensor in eight_bits.initializer}
    before = {tensor.name: tensor for tensor in half.initializer}
    assert before.keys() - kept.keys() == replaced
    assert all(kept[name] == tensor for name, tensor in before.items() if name in kept)
    heads = [node for node in half.node if node.name.startswith("heads.")]
    after = {node.name: node for node in eight_bits.node}
    assert heads and all(after[node.name] == node for node in heads)


@pytest.mark.parametrize(("kind", "most"), [("int8", 0.1), ("fp8", 0.15)])
def test_it_answers_near_fp32(
    graph: onnx.ModelProto, ranges: Mapping[str, float], kind: EightBit, most: float
) -> None:
    (windows, *_) = calls()
    expected, half = run(graph, windows), run(emulated(mixed(graph, "fp16")), windows)
    found = run(emulated(quantized(graph, "fp16", kind, ranges)), windows)
    off, of_half = (
        max(float(np.abs(one - two).max()) for one, two in zip(expected, each, strict=True))
        for each in (found, half)
    )
    assert of_half < off <= most


def test_the_given_graph_is_left_alone(graph: onnx.ModelProto, ranges: Mapping[str, float]) -> None:
    before = graph.SerializeToString(deterministic=True)
    quantized(graph, "bf16", "int8", ranges)
    assert graph.SerializeToString(deterministic=True) == before


# Rules on graphs of a few nodes ---------------------------------------------------------------


def small(**weights: Any) -> onnx.ModelProto:
    """A graph: x @ wide, a layer norm, @ w, a bias, softmax."""
    constants = {
        "wide": np.eye(2),
        "g": np.ones(2),
        "w": np.eye(2),
        "b": [0.5, 0.25],
    } | weights
    nodes = [
        helper.make_node("MatMul", ["x", "wide"], ["a"], name="widen"),
        helper.make_node("LayerNormalization", ["a", "g"], ["n"], name="norm"),
        helper.make_node("MatMul", ["n", "w"], ["c"], name="product"),
        helper.make_node("Add", ["c", "b"], ["d"], name="bias"),
        helper.make_node("Softmax", ["d"], ["y"], name="end"),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in "xy"]
    arrays = [numpy_helper.from_array(np.asarray(a, np.float32), n) for n, a in constants.items()]
    made = helper.make_graph(nodes, "small", ends[:1], ends[1:], arrays)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model)


def answer(graph: onnx.ModelProto, x: Any) -> Any:
    options = onnxruntime.SessionOptions()
    # A fused int8 product would leave out the rounding to 16 bits that a card does.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (y,) = session.run(None, {"x": np.asarray(x, np.float32)})
    return y


def test_what_comes_before_the_first_layer_norm_is_no_layer() -> None:
    assert [node.name for node in large_products(small().graph)] == ["product"]


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_rounded_as_a_card_rounds_them(kind: EightBit) -> None:
    x, w = [[0.3, 1.7], [5.0, -0.2]], np.array([[0.7, -0.013], [0.21, 0.4]], np.float32)
    half, bound = ml_dtypes.bfloat16, 0.9  # below 1, what a layer norm of two answers: it is cut
    found = answer(emulated(quantized(small(w=w), "bf16", kind, {"product": bound})), x)

    top = 127.0 if kind == "int8" else 448.0

    def to_eight_bits(values: Any, scale: Any) -> Any:
        steps = values / scale.astype(np.float32)
        if kind == "int8":
            return np.clip(np.rint(steps), -128, top)
        steps = np.clip(steps, -top, top)
        return steps.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)

    normed = np.array([[-1.0, 1.0], [1.0, -1.0]], np.float32)
    of_x = np.float32(bound / top).astype(half)
    of_w = (np.abs(w).max(axis=0 if kind == "int8" else None) / top).astype(half)
    left = (to_eight_bits(normed, of_x) * of_x.astype(np.float32)).astype(half)
    right = (to_eight_bits(w, of_w) * of_w.astype(np.float32)).astype(half)
    product = (left.astype(np.float32) @ right.astype(np.float32)).astype(half)
    biased = (product.astype(np.float32) + np.array([0.5, 0.25], np.float32)).astype(half)
    powers = np.exp(biased.astype(np.float32))
    assert found == pytest.approx(powers / powers.sum(axis=1, keepdims=True), abs=1e-6)


def test_a_column_of_zeros_has_a_scale_all_the_same() -> None:
    graph = small(w=[[1.0, 0.0], [1.0, 0.0]])
    for half in ("bf16", "fp16"):
        made = quantized(graph, half, "int8", {"product": 1.0})
        scales = {each.name: numpy_helper.to_array(each) for each in made.graph.initializer}
        assert (scales["w_scale"].astype(np.float32) > 0).all()
        assert np.isfinite(answer(emulated(made), [[0.3, 1.7], [5.0, -0.2]])).all()


@pytest.mark.parametrize("found", [{}, {"product": 0.0}, {"product": float("nan")}])
def test_a_range_that_was_not_found_is_named(found: dict[str, float]) -> None:
    with pytest.raises(BackendError, match=r"ranges of 1 of 1 products .*product.*more rows"):
        quantized(small(), "bf16", "int8", found)


def test_a_graph_without_layers_is_refused() -> None:
    graph = small()
    del graph.graph.node[1:]
    with pytest.raises(BackendError, match="no product of a layer"):
        quantized(graph, "bf16", "int8", {})


# Ranges ---------------------------------------------------------------------------------------


def test_sizes_are_the_largest_of_every_channel(graph: onnx.ModelProto) -> None:
    sizes = find_channel_sizes(graph, calls(), threads=1)
    products = large_products(graph.graph)
    assert list(sizes) == [node.name for node in products]
    told = onnx.ModelProto()
    told.CopyFrom(graph)
    told.graph.output.extend(
        helper.make_tensor_value_info(node.input[0], TensorProto.FLOAT, None) for node in products
    )
    session = onnxruntime.InferenceSession(
        told.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for node in products:
        found = [session.run([node.input[0]], call._asdict())[0] for call in calls()]
        rows = np.concatenate([values.reshape(-1, values.shape[-1]) for values in found])
        assert sizes[node.name] == pytest.approx(np.abs(rows).max(axis=0), rel=1e-5)


def test_without_a_call_there_is_no_range(graph: onnx.ModelProto) -> None:
    with pytest.raises(BackendError, match="no engine call to find ranges on; give more rows"):
        find_channel_sizes(graph, [], threads=1)


def test_a_size_that_is_not_finite_is_refused(graph: onnx.ModelProto) -> None:
    broken = onnx.ModelProto()
    broken.CopyFrom(graph)
    norm = next(node for node in broken.graph.node if node.op_type == "LayerNormalization")
    (scale,) = (tensor for tensor in broken.graph.initializer if tensor.name == norm.input[1])
    values = numpy_helper.to_array(scale).copy()
    values[0] = np.inf
    scale.CopyFrom(numpy_helper.from_array(values, scale.name))
    with pytest.raises(BackendError, match="not finite in fp32; no range of it can be found"):
        find_channel_sizes(broken, calls(), threads=1)
