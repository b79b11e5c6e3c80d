"""Weights rounded for typical inputs change products with them least."""

from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper
from typer.testing import CliRunner

from tests.graphs import graph_of
from trivet.__main__ import app
from trivet.bundle.bundle import Bundle, read_bundle
from trivet.bundle.hub import EMBEDDED_BUNDLE
from trivet.bundle.weights import load_rag_model
from trivet.errors import DataError
from trivet.exporting.graph import OPSET, trace
from trivet.exporting.int8 import matmul_inputs, quantize
from trivet.exporting.rounding import measure_products, round_for
from trivet.model.inference.rag_inference import inference_model
from trivet.records import RagExample

LARGEST = 64
BRIDGE = RagExample(
    id="1", question="When was it built?", contexts=("It was built in 1820.",), response="In 1820."
)
LONG = dataclasses.replace(BRIDGE, id="2", contexts=("The bridge crosses a river. " * 20,))
REFUSED = RagExample(id="3", question="Why?", contexts=(), response="")


def correlated(rng: np.random.Generator, size: int, columns: int) -> tuple[np.ndarray, ...]:
    """Return weights, their scale, inputs of few directions, and their products."""
    matrix = rng.normal(size=(size, columns)).astype(np.float32)
    inputs = rng.normal(size=(400, 3)) @ rng.normal(size=(3, size))
    inputs += 0.05 * rng.normal(size=inputs.shape)
    scale = np.abs(matrix).max(axis=0, keepdims=True) / np.float32(LARGEST)
    return matrix, scale, inputs, inputs.T @ inputs / len(inputs)


def error(
    rounded: npt.NDArray[np.int8], matrix: np.ndarray, scale: np.ndarray, inputs: np.ndarray
) -> float:
    return float(np.square(inputs @ (rounded * scale - matrix)).mean())


# Sizes on both sides of the block's.
@given(st.integers(0, 99), st.sampled_from([20, 128, 150]))
def test_products_with_the_inputs_change_less(seed: int, size: int) -> None:
    matrix, scale, inputs, products = correlated(np.random.default_rng(seed), size, 6)
    nearest = np.rint(matrix / scale).astype(np.int8)
    rounded = round_for(matrix, scale, products, LARGEST)
    assert error(rounded, matrix, scale, inputs) < 0.5 * error(nearest, matrix, scale, inputs)
    assert np.abs(rounded).max() == LARGEST
    # They round to themselves again, by nearest integers and for the inputs.
    again = (rounded * scale).astype(np.float32)
    own = np.abs(again).max(axis=0, keepdims=True) / np.float32(LARGEST)
    np.testing.assert_array_equal(np.rint(again / own).astype(np.int8), rounded)
    np.testing.assert_array_equal(round_for(again, own, products, LARGEST), rounded)


def test_independent_inputs_and_columns_of_zeros_are_rounded_to_the_nearest() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(9, 4)).astype(np.float32)
    matrix[:, 2] = 0
    scale = np.abs(matrix).max(axis=0, keepdims=True) / np.float32(LARGEST)
    nearest = np.rint(matrix / np.where(scale > 0, scale, 1))
    for squares in (rng.uniform(0.1, 2, size=9), np.zeros(9)):
        rounded = round_for(matrix, scale, np.diag(squares), LARGEST)
        np.testing.assert_array_equal(rounded, nearest)


def integers(graph: onnx.ModelProto) -> list[np.ndarray]:
    stored = (one for one in graph.graph.initializer if one.data_type == onnx.TensorProto.INT8)
    return [numpy_helper.to_array(one) for one in stored]


@pytest.mark.parametrize("kind", ["bert", "deberta-v2", "mpnet", "modernbert"])
def test_every_matmul_is_rounded_for_its_inputs(kind: str) -> None:
    graph = graph_of(kind, "runtime")
    inputs = matmul_inputs(graph)
    constants = {one.name: one for one in graph.graph.initializer}
    rng = np.random.default_rng(3)
    products = {}
    for name in inputs:
        node = next(node for node in graph.graph.node if name in node.input[:1])
        size = constants[node.input[1]].dims[0]
        values = rng.normal(size=(200, 2)) @ rng.normal(size=(2, size))
        products[name] = values.T @ values / len(values)
    plain, rounded = integers(quantize(graph)), integers(quantize(graph, products))
    changed = [not np.array_equal(one, other) for one, other in zip(plain, rounded, strict=True)]
    tables = 1  # of words, which are looked up
    assert sum(changed) == len(changed) - tables


@pytest.fixture(scope="module")
def embedded() -> tuple[Bundle, onnx.ModelProto, tuple[str, ...]]:
    """The embedded bundle, its graph in fp32, and the inputs of its matmuls."""
    bundle = read_bundle(EMBEDDED_BUNDLE)
    model = load_rag_model(bundle)
    inference = inference_model(model, bundle.info.window.size, "runtime")
    graph = trace(inference, int(model.trunk.config.vocab_size), OPSET, heads=list(model.heads))
    return bundle, graph, matmul_inputs(graph)


def test_products_are_means_over_the_tokens_of_examples(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    embedded: tuple[Bundle, onnx.ModelProto, tuple[str, ...]],
) -> None:
    bundle, graph, names = embedded
    assert len(names) == 4 * bundle.info.encoder.layers
    first = measure_products(graph, names, bundle, [BRIDGE], tmp_path, 1)
    hidden = bundle.info.encoder.hidden_size
    assert [len(first[name]) for name in names[:4]] == [hidden, hidden, hidden, 4 * hidden]
    with caplog.at_level(logging.WARNING):
        again = measure_products(graph, names, bundle, [BRIDGE, REFUSED, BRIDGE], tmp_path, 1)
    assert "1 of 3 examples to round for are left out; the first: " in caplog.text
    for name in names:
        np.testing.assert_allclose(again[name], first[name], rtol=1e-3, atol=1e-3)
    # Padding does not count: beside a longer window the first example has the same products.
    sums = {}
    for key, examples in (("short", [BRIDGE]), ("long", [LONG]), ("both", [BRIDGE, LONG])):
        found = measure_products(graph, names[:1], bundle, examples, tmp_path, 1)
        sums[key] = found[names[0]]
    apart = np.array([sums["short"].ravel(), sums["long"].ravel()]).T
    shares, left, *_ = np.linalg.lstsq(apart, sums["both"].ravel())
    assert shares.sum() == pytest.approx(1, abs=1e-3)
    assert left[0] < 1e-4 * np.square(sums["both"]).sum()


def test_examples_that_are_all_refused_are_an_error(
    tmp_path: Path, embedded: tuple[Bundle, onnx.ModelProto, tuple[str, ...]]
) -> None:
    bundle, graph, names = embedded
    with pytest.raises(DataError, match="none of the 1 examples to round for is evaluated; the"):
        measure_products(graph, names, bundle, [REFUSED], tmp_path, 1)


def test_the_command_rounds_weights_of_a_graph_to_the_same_again(tmp_path: Path) -> None:
    rows, out = tmp_path / "rows.jsonl", tmp_path / "out"
    row = {"id": "1", "question": "Which?", "contexts": ["Built in 1820."], "response": "In 1820."}
    rows.write_text(json.dumps(row))
    words = ["export", "onnx", "embedded", "--precision", "int8", "--out", str(out)]
    chosen = ["--data", f"jsonl:{rows}", "--split", "all", "--threads", "1"]
    result = CliRunner().invoke(app, [*words, *chosen])
    assert result.exit_code == 0, result.output
    graphs = [onnx.load(folder / "model.int8.onnx") for folder in (EMBEDDED_BUNDLE, out)]
    for old, new in zip(*map(integers, graphs), strict=True):
        np.testing.assert_array_equal(old, new)
