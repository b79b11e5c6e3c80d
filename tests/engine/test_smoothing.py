"""A smoothed graph answers the same, and loses less where channels differ in size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from tests.engine.test_qdq import LAYERS, answer, calls, run, small
from trivet.exporting.precision import emulated
from trivet.exporting.qdq import quantized, rounded_products
from trivet.exporting.ranges import ChannelSizes, find_channel_sizes
from trivet.exporting.smoothing import smoothed


@pytest.fixture(scope="session")
def sizes(graph: onnx.ModelProto) -> Mapping[str, ChannelSizes]:
    return find_channel_sizes(graph, calls(), threads=1)


def test_it_answers_the_same(graph: onnx.ModelProto, sizes: Mapping[str, ChannelSizes]) -> None:
    before = graph.SerializeToString(deterministic=True)
    smooth, _ = smoothed(graph, sizes)
    assert graph.SerializeToString(deterministic=True) == before
    onnx.checker.check_model(smooth, full_check=True)
    for windows in calls():
        for one, two in zip(run(graph, windows), run(smooth, windows), strict=True):
            np.testing.assert_allclose(one, two, atol=1e-5)


def test_one_product_by_a_vector_is_added_for_each_activation(
    graph: onnx.ModelProto,
    sizes: Mapping[str, ChannelSizes],
    check_operators: Callable[[onnx.ModelProto], None],
) -> None:
    smooth, _ = smoothed(graph, sizes)
    check_operators(smooth)
    after = Counter(node.op_type for node in smooth.graph.node)
    assert after - Counter(node.op_type for node in graph.graph.node) == {"Mul": 3 * LAYERS}
    assert len(smooth.graph.initializer) == len(graph.graph.initializer) + 3 * LAYERS
    names = [node.name for node in rounded_products(smooth.graph, "int8")]
    assert names == [node.name for node in rounded_products(graph.graph, "int8")]


def test_sizes_are_those_of_the_smoothed_graph(
    graph: onnx.ModelProto, sizes: Mapping[str, ChannelSizes]
) -> None:
    smooth, found = smoothed(graph, sizes)
    measured = find_channel_sizes(smooth, calls(), threads=1)
    assert found.keys() == {node.name for node in rounded_products(graph.graph, "int8")}
    for name, of in found.items():
        np.testing.assert_allclose(of, measured[name], rtol=1e-4, atol=1e-6)


def two_readers() -> onnx.ModelProto:
    """As ``small``, with a second product of the same values, by weights that both read."""
    graph = small()
    graph.graph.node.insert(3, helper.make_node("MatMul", ["n", "w"], ["e"], name="other"))
    graph.graph.node.insert(5, helper.make_node("Mul", ["c", "e"], ["f"], name="both"))
    (bias,) = (node for node in graph.graph.node if node.name == "bias")
    bias.input[0] = "f"
    return graph


def test_values_that_two_products_read_are_divided_once() -> None:
    graph = two_readers()
    sizes = np.array([30.0, 0.1], np.float32)
    smooth, _ = smoothed(graph, {"product": sizes, "other": sizes})
    assert sum(node.op_type == "Mul" for node in smooth.graph.node) == 2
    x = [[0.3, 1.7], [5.0, -0.2]]
    np.testing.assert_allclose(answer(graph, x), answer(smooth, x), atol=1e-6)


@given(
    st.lists(st.floats(0, 1e6, width=32), min_size=2, max_size=2),
    st.lists(st.floats(-1e3, 1e3, width=32), min_size=4, max_size=4),
)
def test_whatever_the_sizes_the_graph_stays_finite(size: list[float], weight: list[float]) -> None:
    w = np.reshape(weight, (2, 2))
    smooth, found = smoothed(small(w=w), {"product": np.array(size, np.float32)})
    arrays = [numpy_helper.to_array(tensor) for tensor in smooth.graph.initializer]
    assert all(np.isfinite(array).all() for array in (*arrays, *found.values()))
    x = [[0.3, 1.7], [5.0, -0.2]]
    np.testing.assert_allclose(answer(small(w=w), x), answer(smooth, x), atol=1e-3)


def test_a_large_channel_costs_the_others_less() -> None:
    """The first channel is 200 times the second, which alone tells the two answers apart."""
    rng = np.random.default_rng(0)
    graph = small(g=np.array([200.0, 1.0]), w=np.array([[0.0005, 0.0], [0.0, 1.0]]))
    x = rng.normal(size=(2, 2)).astype(np.float32)
    sizes = {"product": np.array([200.0, 1.0], np.float32)}

    def off(given: onnx.ModelProto, of: Mapping[str, ChannelSizes]) -> float:
        ranges = {name: float(each.max()) for name, each in of.items()}
        rounded = answer(emulated(quantized(given, "fp16", "int8", ranges)), x)
        return float(np.abs(rounded - answer(graph, x)).max())

    assert 10 * off(*smoothed(graph, sizes)) < off(graph, sizes)
