"""Weights rounded for typical inputs change products with them less than the nearest integers."""

from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from typer.testing import CliRunner

from tests.conftest import TINY
from tests.graphs import graph_of, integers, model_of, shared_graphs, write_tiny
from trivet import export
from trivet.__main__ import app
from trivet.bundle.bundle import Bundle, read_bundle
from trivet.bundle.hub import EMBEDDED_BUNDLE
from trivet.bundle.weights import load_rag_model
from trivet.errors import DataError
from trivet.exporting.graph import OPSET, trace
from trivet.exporting.input_moments import measure_moments
from trivet.exporting.int8 import matmul_inputs, quantize
from trivet.exporting.rounding import Moments, round_for_inputs
from trivet.model.inference.rag_inference import inference_model
from trivet.records import RagExample

LARGEST = 64
BRIDGE = RagExample(
    id="1", question="When was it built?", contexts=("It was built in 1820.",), response="In 1820."
)
LONG = dataclasses.replace(BRIDGE, id="2", contexts=("The bridge crosses a river. " * 20,))
REFUSED = RagExample(id="3", question="Why?", contexts=(), response="")


def correlated(rng: np.random.Generator, size: int, columns: int) -> tuple[np.ndarray, ...]:
    """Return weights, their scale, inputs of few directions, and their moments."""
    matrix = rng.normal(size=(size, columns)).astype(np.float32)
    inputs = rng.normal(size=(400, 3)) @ rng.normal(size=(3, size))
    inputs += 0.05 * rng.normal(size=inputs.shape)
    inputs[:, ::7] = 0  # some inputs are never used
    scale = np.abs(matrix).max(axis=0, keepdims=True) / np.float32(LARGEST)
    return matrix, scale, inputs, inputs.T @ inputs / len(inputs)


def error(
    rounded: npt.NDArray[np.int8], matrix: np.ndarray, scale: np.ndarray, inputs: np.ndarray
) -> float:
    return float(np.square(inputs @ (rounded * scale - matrix)).mean())


# Sizes on both sides of the block's.
@settings(max_examples=20)
@given(st.integers(0, 99), st.sampled_from([20, 128, 150]))
def test_products_with_the_inputs_change_less(seed: int, size: int) -> None:
    matrix, scale, inputs, moments = correlated(np.random.default_rng(seed), size, 6)
    nearest = np.rint(matrix / scale).astype(np.int8)
    rounded = round_for_inputs(matrix, scale, moments, LARGEST)
    assert error(rounded, matrix, scale, inputs) < 0.5 * error(nearest, matrix, scale, inputs)
    assert (np.abs(rounded).max(axis=0) == LARGEST).all()
    # They round to themselves again, by nearest integers and for the inputs.
    again = (rounded * scale).astype(np.float32)
    own = np.abs(again).max(axis=0, keepdims=True) / np.float32(LARGEST)
    np.testing.assert_array_equal(np.rint(again / own).astype(np.int8), rounded)
    np.testing.assert_array_equal(round_for_inputs(again, own, moments, LARGEST), rounded)


def test_independent_inputs_and_columns_of_zeros_are_rounded_to_the_nearest() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(9, 4)).astype(np.float32)
    matrix[:, 2] = 0
    scale = np.abs(matrix).max(axis=0, keepdims=True) / np.float32(LARGEST)
    nearest = np.rint(matrix / np.where(scale > 0, scale, 1))
    for squares in (rng.uniform(0.1, 2, size=9), np.zeros(9)):
        rounded = round_for_inputs(matrix, scale, np.diag(squares), LARGEST)
        np.testing.assert_array_equal(rounded, nearest)


@pytest.mark.parametrize("kind", ["bert", "deberta-v2", "mpnet", "modernbert"])
def test_every_matmul_is_rounded_for_its_own_inputs(kind: str) -> None:
    graph = graph_of(kind, "runtime")
    constants = {one.name: numpy_helper.to_array(one) for one in graph.graph.initializer}
    rng, moments, inputs = np.random.default_rng(3), {}, {}
    for name in matmul_inputs(graph):
        size = next(len(constants[m.input[1]]) for m in matmuls(graph) if m.input[0] == name)
        inputs[name] = rng.normal(size=(200, 2)) @ rng.normal(size=(2, size))
        moments[name] = inputs[name].T @ inputs[name] / 200
    plain, rounded = quantize(graph), quantize(graph, moments)
    for node in matmuls(graph):
        values, matrix = inputs[node.input[0]], constants[node.input[1]]
        errors = []
        for found in (plain, rounded):
            stored = {one.name: numpy_helper.to_array(one) for one in found.graph.initializer}
            scale = stored[f"{node.output[0]}_scale"]
            errors.append(error(stored[f"{node.output[0]}_int8"], matrix, scale, values))
        assert errors[1] < 0.5 * errors[0]


def matmuls(graph: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Return the matmuls by constants outside the heads."""
    constants = {one.name for one in graph.graph.initializer if len(one.dims) == 2}
    return [
        node
        for node in graph.graph.node
        if node.op_type == "MatMul" and node.input[1] in constants
        if not node.name.startswith("heads.")
    ]


def test_an_export_rounds_for_its_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tiny(tmp_path / "bundle", model_of("bert"))
    asked: list[object] = []

    def moments(graph: onnx.ModelProto, tensors: tuple[str, ...], *rest: object) -> Moments:
        asked.append(rest[1])
        return {name: np.ones((TINY["hidden_size"],) * 2) for name in tensors[:1]}

    monkeypatch.setattr(export, "measure_moments", moments)
    found = {}
    for name, examples in (("plain", None), ("rounded", [BRIDGE])):
        with shared_graphs():
            export.export_onnx(tmp_path / "bundle", tmp_path / name, examples=examples, threads=1)
        found[name] = integers(onnx.load(tmp_path / name / "model.int8.onnx"))
    assert asked == [[BRIDGE]]
    pairs = zip(found["plain"], found["rounded"], strict=True)
    assert sum(not np.array_equal(one, other) for one, other in pairs) == 1


@pytest.fixture(scope="module")
def embedded() -> tuple[Bundle, onnx.ModelProto, tuple[str, ...]]:
    """The embedded bundle, its graph in fp32, and the inputs of its matmuls."""
    bundle = read_bundle(EMBEDDED_BUNDLE)
    model = load_rag_model(bundle)
    inference = inference_model(model, bundle.info.window.size, "runtime")
    graph = trace(inference, int(model.trunk.config.vocab_size), OPSET, heads=list(model.heads))
    return bundle, graph, matmul_inputs(graph)


def test_moments_are_means_over_the_tokens_of_examples(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    embedded: tuple[Bundle, onnx.ModelProto, tuple[str, ...]],
) -> None:
    bundle, graph, names = embedded
    assert len(names) == 4 * bundle.info.encoder.layers
    first = measure_moments(graph, names, bundle, [BRIDGE], tmp_path, 1)
    hidden = bundle.info.encoder.hidden_size
    assert [len(first[name]) for name in names[:4]] == [hidden, hidden, hidden, 4 * hidden]
    with caplog.at_level(logging.WARNING):
        again = measure_moments(graph, names, bundle, [BRIDGE, REFUSED, BRIDGE], tmp_path, 1)
    assert "1 of 3 examples to round for are left out; the first: " in caplog.text
    for name in names:
        np.testing.assert_allclose(again[name], first[name], rtol=1e-3, atol=1e-3)
    # A tensor of something else than the tokens is left out.
    other = onnx.ModelProto()
    other.CopyFrom(graph)
    table = numpy_helper.from_array(np.ones((1, 3, 4), np.float32))
    other.graph.node.append(helper.make_node("Constant", [], ["table"], value=table))
    found = measure_moments(other, ("table", names[0]), bundle, [BRIDGE], tmp_path, 1)
    assert list(found) == [names[0]]
    # Padding does not count: beside a longer window the first example has the same moments.
    sums = {}
    for key, examples in (("short", [BRIDGE]), ("long", [LONG]), ("both", [BRIDGE, LONG])):
        found = measure_moments(graph, names[:1], bundle, examples, tmp_path, 1)
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
        measure_moments(graph, names, bundle, [REFUSED], tmp_path, 1)


def test_the_command_rounds_weights_of_a_graph_to_the_same_again(tmp_path: Path) -> None:
    rows, out = tmp_path / "rows.jsonl", tmp_path / "out"
    row = {"id": "1", "question": "Which?", "contexts": ["Built in 1820."], "response": "In 1820."}
    rows.write_text(json.dumps(row))
    words = ["export", "onnx", "embedded", "--precision", "int8", "--out", str(out)]
    chosen = ["--round-for", f"jsonl:{rows}", "--split", "all", "--threads", "1"]
    result = CliRunner().invoke(app, [*words, *chosen])
    assert result.exit_code == 0, result.output
    graphs = [onnx.load(folder / "model.int8.onnx") for folder in (EMBEDDED_BUNDLE, out)]
    for old, new in zip(*map(integers, graphs), strict=True):
        np.testing.assert_array_equal(old, new)
