"""Exported graphs answer as the weights do, on every shape, and hold no local paths."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, numpy_helper

from tests.graphs import (
    VOCAB,
    WINDOW,
    exported_bundle,
    model_of,
    shared_graphs,
    write_tiny,
)
from trivet.backends.onnx_runtime import OnnxRuntimeBackend
from trivet.backends.opening import find_graphs
from trivet.backends.profiles import Sizes, make_windows
from trivet.bundle.bundle import read_bundle
from trivet.bundle.info import INPUTS, OUTPUTS
from trivet.bundle.self_test import read_self_test
from trivet.bundle.weights import load_rag_model
from trivet.data.windows import Windows
from trivet.errors import BackendError, BundleError
from trivet.export import export_onnx
from trivet.exporting.graph import OPSET
from trivet.exporting.graph_files import ATTENTION_OPSET
from trivet.exporting.parity import FP32_TOLERANCE, grid
from trivet.model.rag_model import as_tensors

GRAPHS = ("model.onnx", "model.int8.onnx")


@pytest.fixture(scope="module", params=["bert", "deberta-v2", "mpnet", "modernbert"])
def exported(request: pytest.FixtureRequest) -> Path:
    """An exported bundle of each encoder."""
    return exported_bundle(request.param)


def test_the_reports_and_the_description_match_the_graphs(exported: Path) -> None:
    report = json.loads((exported / "parity.json").read_text())
    assert report["worst"]["model.onnx"] <= FP32_TOLERANCE
    assert report["worst"]["model.int8.onnx"] < 0.15
    assert len(report["rows"]) == len(grid(WINDOW))
    bundle = read_bundle(exported)
    assert [
        (graph.file, graph.precision, graph.portable, graph.sums_fit, graph.difference)
        for graph in bundle.info.graphs
    ] == [
        ("model.onnx", "fp32", True, False, report["worst"]["model.onnx"]),
        ("model.int8.onnx", "int8", False, True, report["worst"]["model.int8.onnx"]),
    ]
    assert "model.int8.onnx" in (exported / "README.md").read_text()


def test_the_self_test_accepts_the_files_and_notices_a_change(exported: Path) -> None:
    test = read_self_test(exported / "self_test.json")
    windows = Windows(**test.arrays())
    for file in GRAPHS:
        outputs = OnnxRuntimeBackend(exported / file, threads=1).run(windows)
        assert test.check(file, outputs.present()) < 1e-3
        with pytest.raises(BundleError, match="answers differ"):
            test.check(file, {name: array + 0.1 for name, array in outputs.present().items()})
    with torch.inference_mode():
        expected = load_rag_model(read_bundle(exported))(*as_tensors(windows))
    arrays = {name: tensor.numpy() for name, tensor in expected.present().items()}
    assert test.check("model.safetensors", arrays) < 1e-5


@pytest.mark.parametrize("file", GRAPHS)
def test_names_are_complete_and_no_path_is_left(exported: Path, file: str) -> None:
    graph = onnx.load(exported / file).graph
    for infos, values in ((INPUTS, graph.input), (OUTPUTS[:-1], graph.output)):
        files = [
            (value.name, tuple(size.dim_param for size in value.type.tensor_type.shape.dim))
            for value in values
        ]
        assert files == [(info.name, info.dims) for info in infos]
    names = [node.name for node in graph.node]
    assert all(names) and len(set(names)) == len(names)
    made_by = {name: node.op_type for node in graph.node for name in node.output}
    before_norms = [
        made_by.get(node.input[0]) for node in graph.node if node.op_type == "LayerNormalization"
    ]
    assert before_norms and "Add" not in before_norms, "ONNX Runtime would fuse it"
    content = (exported / file).read_bytes()
    for leak in (b".py", b"site-packages", str(Path.cwd()).encode(), b"stack_trace"):
        assert leak not in content, leak


def test_int8_leaves_heads_and_position_tables_alone(exported: Path) -> None:
    graph = onnx.load(exported / "model.int8.onnx").graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    # Four matmuls a layer: projections, attention output, widen, narrow.
    integers = [node for node in graph.node if node.op_type == "MatMulIntegerToFloat"]
    assert len(integers) == 2 * 4
    kept = {node.name for node in graph.node if node.op_type in ("MatMul", "Gemm")}
    assert sum(name.startswith("heads.") for name in kept) == 4
    # A scale for every output channel; two products fit in 16 bits.
    for node in integers:
        weights = numpy_helper.to_array(constants[node.input[1]])
        assert weights.ndim == 2
        assert (np.abs(weights.astype(int)).max(axis=0) == 64).all(), node.name


def test_embeddings_are_rounded_row_by_row(exported: Path) -> None:
    graph = onnx.load(exported / "model.int8.onnx").graph
    tables = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    (name,) = (name for name in tables if tables[name].shape == (VOCAB, 16))
    assert tables[name].dtype == np.int8
    scale = tables[name.removesuffix("_int8") + "_scale"]
    model = load_rag_model(read_bundle(exported))
    state = model.state_dict().values()
    words = next(tensor.numpy() for tensor in state if tensor.shape == (VOCAB, 16))
    assert (np.abs(tables[name] * scale - words) <= scale / 2 + 1e-7).all()


def test_int8_answers_do_not_depend_on_the_batch(exported: Path) -> None:
    run = OnnxRuntimeBackend(exported / "model.int8.onnx", threads=1).run
    batch = make_windows(Sizes(N=6, L=40, B=1, R=40, K=1, C=40, S=1), VOCAB, seed=4)
    of_window = ("input_ids", "attention_mask", "segment_ids")
    places = np.arange(40)
    for n in (0, 2, 4):
        real = int(batch.attention_mask[n].sum())
        at = np.where(places < real, places, -1)
        alone = batch._replace(
            response_at=at[None, :, None],
            context_at=at[None],
            **{name: getattr(batch, name)[n : n + 1] for name in of_window},
        )
        here = np.where(at < 0, -1, at + n * 40)
        among = batch._replace(response_at=here[None, :, None], context_at=here[None])
        cut = alone._replace(**{name: getattr(alone, name)[:, :real] for name in of_window})
        expected = run(alone).support_probs
        assert np.abs(run(among).support_probs - expected).max() < 1e-5
        # Without padding, sums may be added in another order and a value rounded differently.
        assert np.abs(run(cut).support_probs - expected).max() < 0.01


def test_a_serving_bundle_has_no_weights(tmp_path: Path, exported: Path) -> None:
    before = (exported / "MANIFEST.json").read_bytes()
    with shared_graphs():
        report = export_onnx(
            exported, tmp_path / "serving", keep=("int8", "fp32", "bf16"), threads=1
        )
    bundle = read_bundle(tmp_path / "serving")
    files = {"model.int8.onnx", "model.onnx", "model.bf16.onnx"}
    described = {"README.md", "bundle.json", "parity.json", "self_test.json", "tokenizer.json"}
    assert bundle.manifest.files.keys() == files | described
    assert {graph.file for graph in bundle.info.graphs} == files
    expected = read_self_test(bundle.path("self_test.json")).expected
    assert {file: answers.precision for file, answers in expected.items()} == {
        graph.file: graph.precision for graph in bundle.info.graphs
    }
    assert (exported / "MANIFEST.json").read_bytes() == before
    with pytest.raises(BundleError, match="cannot be read back"):
        load_rag_model(bundle)
    (graph,) = find_graphs(bundle, "bf16")
    assert graph.portable and graph.difference == report.worst["model.bf16.onnx"]
    assert 0 < report.worst["model.bf16.onnx"] < 0.02
    stored = {tensor.data_type for tensor in onnx.load(bundle.path(graph.file)).graph.initializer}
    assert TensorProto.BFLOAT16 in stored


def test_an_export_removes_older_graphs_but_never_the_weights(tmp_path: Path) -> None:
    folder = write_tiny(tmp_path / "bundle", model_of("bert"))

    def export(**options: Any) -> list[tuple[str, int, bool]]:
        with shared_graphs():
            export_onnx(folder, threads=1, **options)
        assert (folder / "model.safetensors").exists()
        graphs = read_bundle(folder).info.graphs
        files = [graph.file for graph in graphs]
        assert sorted(path.name for path in folder.glob("*.onnx")) == sorted(files)
        return [(graph.file, graph.opset, graph.portable) for graph in graphs]

    with pytest.raises(BundleError, match="has no weights and would replace these"):
        export_onnx(folder, tmp_path / "." / "bundle", threads=1)
    fp32, int8 = ("model.onnx", OPSET, True), ("model.int8.onnx", OPSET, False)
    attention = ("model.attention.onnx", ATTENTION_OPSET, True)
    assert export(form="attention") == [fp32, int8, attention]
    assert export(keep=("fp32", "fp16")) == [fp32, ("model.fp16.onnx", OPSET, True)]
    assert export(keep=("int8",)) == [int8]
    assert export() == [fp32, int8]


def test_a_graph_of_other_weights_is_not_written(tmp_path: Path) -> None:
    model = copy.deepcopy(model_of("bert"))
    with torch.no_grad():
        words = model.state_dict()["trunk.encoder.embeddings.word_embeddings.weight"]
        words.mul_(torch.rand(VOCAB, 16))
    folder = write_tiny(tmp_path / "bundle", model)
    before = sorted(path.name for path in folder.iterdir())
    with (
        shared_graphs(),
        pytest.raises(BackendError, match=r"model\.onnx differs from the weights by .* nothing"),
    ):
        export_onnx(folder, threads=1)
    assert sorted(path.name for path in folder.iterdir()) == before
