"""Exported graphs answer as the weights do, on every shape, and are silent about their maker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import transformers
from onnx import TensorProto

from tests.relative_attention import RELATIVE
from trivet.backends.example_windows import Sizes, make_windows
from trivet.backends.onnx_runtime import OnnxRuntimeBackend
from trivet.bundle.bundle import (
    BundleInfo,
    EncoderInfo,
    SpecialTokenIds,
    Thresholds,
    TrainingInfo,
    WindowInfo,
    read_bundle,
    write_bundle,
)
from trivet.bundle.schema import INPUTS, OUTPUTS
from trivet.bundle.self_test import read_self_test
from trivet.bundle.weights import load_rag_model
from trivet.data.windows import Windows
from trivet.export import export_onnx
from trivet.exporting import int8
from trivet.exporting.graph import name_dimensions
from trivet.exporting.parity import FP32_TOLERANCE, ParityReport, compare, grid
from trivet.model.aggregate import Outputs
from trivet.model.inference.bert import InferenceBert
from trivet.model.rag_model import RagModel, as_tensors
from trivet.model.trunk import Trunk
from trivet.records import BackendError, BundleError

WINDOW = 48


def write_tiny(folder: Path, encoder: transformers.PreTrainedModel, pooled: bool = False) -> Path:
    """Write a bundle with heads so wide that probabilities are far from one half."""
    torch.manual_seed(5)
    model = RagModel(Trunk(encoder), pooled_support=pooled)
    with torch.no_grad():
        for parameter in model.heads.parameters():
            parameter.normal_(0, 0.5)
    info = BundleInfo(
        package_version="0.1.0",
        name="tiny",
        encoder=EncoderInfo(
            model_type=encoder.config.model_type,
            hidden_size=16,
            layers=2,
            source="random",
            licence="Apache-2.0",
        ),
        window=WindowInfo(size=WINDOW),
        faithfulness="weakest_sentence",
        heads=("support", "relevance", "utilization"),
        thresholds=Thresholds(0.5, 0.5, 0.5),
        special_tokens=SpecialTokenIds(cls=2, sep=3, pad=0),
        training=TrainingInfo(command="none", date="2026-01-31", data=()),
    )
    write_bundle(
        folder, info, "{}", weights=model.state_dict(), encoder_config=model.architecture()
    )
    return folder


def small_encoder(kind: str) -> transformers.PreTrainedModel:
    """A two-layer encoder; 1,200 words, so that its embeddings are quantized."""
    torch.manual_seed(1)
    sizes: dict[str, Any] = {
        "vocab_size": 1200,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 64,
        "initializer_range": 0.3,
    }
    if kind == "bert":
        bert = transformers.BertConfig(type_vocab_size=2, **sizes)
        return transformers.BertModel(bert, add_pooling_layer=False)
    return transformers.DebertaV2Model(transformers.DebertaV2Config(**sizes, **RELATIVE))


@pytest.fixture(scope="module", params=["bert", "deberta"])
def exported(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, ParityReport]:
    """An exported bundle of each encoder, and its parity report."""
    encoder = small_encoder(request.param)
    folder = write_tiny(tmp_path_factory.mktemp("export") / "bundle", encoder, pooled=True)
    return folder, export_onnx(folder, threads=1)


def run(path: Path, windows: Windows) -> Outputs:
    return OnnxRuntimeBackend(path, threads=1).run(windows)


def test_fp32_equals_the_weights_on_every_shape(exported: tuple[Path, ParityReport]) -> None:
    folder, report = exported
    assert report.worst["model.onnx"] <= FP32_TOLERANCE
    assert report.worst["model.int8.onnx"] < 0.15
    assert len(report.rows) == len(grid(WINDOW))
    assert json.loads((folder / "parity.json").read_text()) == report.model_dump(mode="json")


def test_the_graphs_are_right_on_shapes_that_were_never_traced(
    exported: tuple[Path, ParityReport],
) -> None:
    folder, _ = exported
    model = load_rag_model(read_bundle(folder))
    for sizes in (
        Sizes(N=4, L=48, B=6, R=1, K=8, C=1, S=9),
        Sizes(N=2, L=2, B=1, R=64, K=2, C=7, S=1),
    ):
        windows = make_windows(sizes, 1200, seed=99)
        with torch.inference_mode():
            expected = model(*as_tensors(windows))
        for name, want, have in zip(
            Outputs._fields, expected, run(folder / "model.onnx", windows), strict=True
        ):
            assert np.abs(want.numpy() - have).max() <= FP32_TOLERANCE, (name, sizes)


def test_the_bundle_knows_its_graphs(exported: tuple[Path, ParityReport]) -> None:
    folder, report = exported
    bundle = read_bundle(folder)
    assert [(graph.file, graph.precision, graph.portable) for graph in bundle.info.graphs] == [
        ("model.onnx", "fp32", True),
        ("model.int8.onnx", "int8", False),
    ]
    assert bundle.info.graphs[1].difference == report.worst["model.int8.onnx"]
    assert "model.int8.onnx" in (folder / "README.md").read_text()
    load_rag_model(bundle)


def test_the_self_test_holds_and_notices(exported: tuple[Path, ParityReport]) -> None:
    folder, _ = exported
    test = read_self_test(folder / "self_test.json")
    windows = Windows(**test.arrays())
    for file in ("model.onnx", "model.int8.onnx"):
        outputs = run(folder / file, windows)
        assert test.check(file, outputs._asdict()) < 1e-3
        with pytest.raises(BundleError, match="answers differ"):
            test.check(file, {name: array + 0.1 for name, array in outputs._asdict().items()})
    with torch.inference_mode():
        expected = load_rag_model(read_bundle(folder))(*as_tensors(windows))
    arrays = {name: tensor.numpy() for name, tensor in expected._asdict().items()}
    assert test.check("model.safetensors", arrays) < 1e-5


def test_every_dimension_is_open_and_named(exported: tuple[Path, ParityReport]) -> None:
    folder, _ = exported
    for file in ("model.onnx", "model.int8.onnx"):
        graph = onnx.load(folder / file).graph
        for infos, values in ((INPUTS, graph.input), (OUTPUTS, graph.output)):
            found = [
                (value.name, tuple(size.dim_param for size in value.type.tensor_type.shape.dim))
                for value in values
            ]
            assert found == [(info.name, info.dims) for info in infos], file


def test_the_portable_graph_is_standard_and_says_nothing_of_its_maker(
    exported: tuple[Path, ParityReport],
) -> None:
    folder, _ = exported
    graph = onnx.load(folder / "model.onnx")
    onnx.checker.check_model(graph, full_check=True)
    assert {node.domain for node in graph.graph.node} == {""}
    for file in ("model.onnx", "model.int8.onnx"):
        content = (folder / file).read_bytes()
        for trace_of_maker in (b".py", b"site-packages", str(Path.cwd()).encode(), b"stack_trace"):
            assert trace_of_maker not in content, (file, trace_of_maker)


def test_positions_are_not_computed_again(exported: tuple[Path, ParityReport]) -> None:
    folder, _ = exported
    kinds = [node.op_type for node in onnx.load(folder / "model.onnx").graph.node]
    assert not {"Log", "Ceil", "Sign", "Range", "Tile"} & set(kinds)
    deberta = read_bundle(folder).info.encoder.model_type == "deberta-v2"
    assert kinds.count("GatherElements") == (2 * 2 if deberta else 0)


def test_every_node_has_a_name_of_its_own(exported: tuple[Path, ParityReport]) -> None:
    folder, _ = exported
    for file in ("model.onnx", "model.int8.onnx"):
        names = [node.name for node in onnx.load(folder / file).graph.node]
        assert all(names) and len(set(names)) == len(names), file


def test_int8_leaves_heads_and_tables_alone(exported: tuple[Path, ParityReport]) -> None:
    folder, _ = exported
    graph = onnx.load(folder / "model.int8.onnx").graph
    # Four products a layer: projections, attention output, widen, narrow.
    integers = [node for node in graph.node if node.op_type == "MatMulIntegerToFloat"]
    assert len(integers) == 2 * 4
    kept = {node.name for node in graph.node if node.op_type in ("MatMul", "Gemm")}
    assert sum(name.startswith("heads.") for name in kept) == 4
    ranks = {tensor.name: len(tensor.dims) for tensor in graph.initializer}
    assert all(ranks[node.input[1]] == 2 for node in integers)
    # A scale for every output channel, up to what two products may add up to in 16 bits.
    weights = {
        tensor.name: onnx.numpy_helper.to_array(tensor)
        for tensor in graph.initializer
        if tensor.data_type == TensorProto.INT8 and len(tensor.dims) == 2
    }
    for node in integers:
        extremes = np.abs(weights[node.input[1]].astype(int)).max(axis=0)
        assert (extremes == 64).all(), node.name
    fits = {each.precision: each.sums_fit for each in read_bundle(folder).info.graphs}
    assert fits == {"fp32": False, "int8": True}


def test_embeddings_are_rounded_row_by_row(exported: tuple[Path, ParityReport]) -> None:
    folder, _ = exported
    graph = onnx.load(folder / "model.int8.onnx").graph
    tables = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    large = [name for name in tables if tables[name].shape == (1200, 16)]
    assert [tables[name].dtype for name in large] == [np.int8]
    name = large[0]
    scale = tables[name.removesuffix("_int8") + "_scale"]
    model = load_rag_model(read_bundle(folder))
    words = model.state_dict()["trunk.encoder.embeddings.word_embeddings.weight"].numpy()
    assert (np.abs(tables[name] * scale - words) <= scale / 2 + 1e-7).all()


def test_int8_answers_do_not_depend_on_the_batch(exported: tuple[Path, ParityReport]) -> None:
    file = exported[0] / "model.int8.onnx"
    batch = make_windows(Sizes(N=6, L=40, B=1, R=40, K=1, C=40, S=1), 1200, seed=4)
    places = np.arange(40)
    for n in (0, 2, 4):
        real = int(batch.attention_mask[n].sum())
        at = np.where(places < real, places, -1)
        alone = batch._replace(
            input_ids=batch.input_ids[n : n + 1],
            attention_mask=batch.attention_mask[n : n + 1],
            segment_ids=batch.segment_ids[n : n + 1],
            response_at=at[None, :, None],
            context_at=at[None],
        )
        here = np.where(at < 0, -1, at + n * 40)
        among = batch._replace(response_at=here[None, :, None], context_at=here[None])
        cut = alone._replace(
            **{
                name: getattr(alone, name)[:, :real]
                for name in ("input_ids", "attention_mask", "segment_ids")
            }
        )
        expected = run(file, alone)
        assert np.abs(run(file, among).support_probs - expected.support_probs).max() < 1e-5
        # Without its padding sums may be added in another order, and a value rounded otherwise.
        assert np.abs(run(file, cut).support_probs - expected.support_probs).max() < 0.01


@pytest.mark.parametrize("file", ["model.onnx", "model.int8.onnx"])
def test_no_residual_sum_can_be_fused(exported: tuple[Path, ParityReport], file: str) -> None:
    folder, _ = exported
    graph = onnx.load(folder / file).graph
    made_by = {name: node.op_type for node in graph.node for name in node.output}
    before = [
        made_by.get(node.input[0]) for node in graph.node if node.op_type == "LayerNormalization"
    ]
    assert before and "Add" not in before


def test_quantizing_leaves_the_given_graph_alone(exported: tuple[Path, ParityReport]) -> None:
    graph = onnx.load(exported[0] / "model.onnx")
    before = graph.SerializeToString(deterministic=True)
    int8.quantize(graph)
    assert graph.SerializeToString(deterministic=True) == before


def test_bert_for_inference_equals_the_library() -> None:
    trunk = Trunk(small_encoder("bert")).eval()
    windows = make_windows(Sizes(N=5, L=37, B=1, R=1, K=1, C=1, S=1), 1200, seed=2)
    given = as_tensors(windows)[:3]
    with torch.inference_mode():
        off = (InferenceBert(trunk.encoder).eval()(*given) - trunk.encode(*given)).abs()
    assert off[given[1].bool()].max() < 1e-5


@pytest.fixture
def traced(exported: tuple[Path, ParityReport], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The exported bundle, for exports that need not trace once more."""
    folder, _ = exported
    graphs = {"fp32": folder / "model.onnx", "int8": folder / "model.int8.onnx"}
    monkeypatch.setattr("trivet.export._write_graphs", lambda *_: graphs)
    return folder


def test_a_serving_bundle_has_no_weights(tmp_path: Path, traced: Path) -> None:
    before = (traced / "MANIFEST.json").read_bytes()
    export_onnx(traced, tmp_path / "serving", threads=1)
    bundle = read_bundle(tmp_path / "serving")
    assert sorted(bundle.manifest.files) == [
        "README.md",
        "bundle.json",
        "model.int8.onnx",
        "parity.json",
        "self_test.json",
        "tokenizer.json",
    ]
    assert [graph.file for graph in bundle.info.graphs] == ["model.int8.onnx"]
    assert list(read_self_test(bundle.path("self_test.json")).expected) == ["model.int8.onnx"]
    assert (traced / "MANIFEST.json").read_bytes() == before
    with pytest.raises(BundleError, match=r"no encoder\.json"):
        load_rag_model(bundle)


def test_a_graph_of_other_weights_is_not_written(tmp_path: Path, traced: Path) -> None:
    kind = "bert" if read_bundle(traced).info.encoder.model_type == "bert" else "deberta"
    encoder = small_encoder(kind)
    with torch.no_grad():
        encoder.state_dict()["embeddings.word_embeddings.weight"].mul_(torch.rand(1200, 16))
    folder = write_tiny(tmp_path / "bundle", encoder, pooled=True)
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(BackendError, match=r"model\.onnx differs from the weights by .* nothing"):
        export_onnx(folder, threads=1)
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_dimension_that_is_fixed_is_noticed(exported: tuple[Path, ParityReport]) -> None:
    graph = onnx.load(exported[0] / "model.onnx")
    graph.graph.input[1].type.tensor_type.shape.dim[1].dim_value = 24
    with pytest.raises(BackendError, match=r"dimension L of attention_mask .* the constant 24"):
        name_dimensions(graph)
    graph.graph.input.pop()
    with pytest.raises(BackendError, match="came out with the inputs and outputs input_ids"):
        name_dimensions(graph)


# The tools of the comparison ------------------------------------------------------------------


def test_the_grid_has_ones_odd_and_large_sizes() -> None:
    rows = [sizes._asdict() for sizes in grid(512)]
    for letter in "NLBRKCS":
        values = {row[letter] for row in rows}
        assert 1 in values, letter
        assert any(value > 1 and value % 2 for value in values), letter
        assert max(values) >= 5, letter
    assert max(row["L"] for row in rows) == 512
    assert max(sizes.L for sizes in grid(16)) == 16


def test_windows_without_text_look_like_real_ones() -> None:
    windows = make_windows(Sizes(N=6, L=20, B=3, R=11, K=2, C=30, S=4), 100, seed=0)
    assert windows.attention_mask[0].all() and windows.attention_mask[-1].sum() == 1
    assert (windows.input_ids[windows.attention_mask == 0] == 0).all()
    flat = windows.attention_mask.reshape(-1)
    for at in (windows.response_at, windows.context_at):
        assert (at == -1).any() and flat[at[at >= 0]].all()
    assert np.allclose(windows.context_weight.sum(-1), 1)
    assert (windows.context_weight[windows.context_at < 0] == 0).all()
    assert np.allclose(windows.sentence_pool.sum(-1), 1)
    again = make_windows(Sizes(N=6, L=20, B=3, R=11, K=2, C=30, S=4), 100, seed=0)
    assert all((one == two).all() for one, two in zip(windows, again, strict=True))


def answer(value: float) -> dict[str, Any]:
    return {info.name: np.full((2,) * len(info.dims), value, np.float32) for info in OUTPUTS}


def test_the_comparison_names_the_engine() -> None:
    sizes = Sizes(1, 1, 1, 1, 1, 1, 1)
    cases = [(sizes, make_windows(sizes, 10, seed=0))]
    report = compare(lambda _: answer(0.5), {"engine": lambda _: answer(0.75)}, cases)
    assert report.worst == {"engine": 0.25}
    assert report.rows[0].differences["engine"].mean["faithfulness"] == 0.25
    with pytest.raises(BackendError, match=r"engine: support_probs is not finite on Sizes"):
        compare(lambda _: answer(0.5), {"engine": lambda _: answer(float("nan"))}, cases)
    wrong = answer(0.5) | {"relevance": np.zeros(5, np.float32)}
    with pytest.raises(BackendError, match=r"relevance has shape \(5,\) instead of \(2,\)"):
        compare(lambda _: answer(0.5), {"engine": lambda _: wrong}, cases)


def test_what_is_not_kept_goes_but_never_the_weights(tmp_path: Path) -> None:
    folder = write_tiny(tmp_path / "bundle", small_encoder("bert"), pooled=False)
    with pytest.raises(BundleError, match="has no weights and would replace these"):
        export_onnx(folder, tmp_path / "." / "bundle", threads=1)
    export_onnx(folder, threads=1)
    export_onnx(folder, keep=("int8",), threads=1)
    assert [graph.file for graph in read_bundle(folder).info.graphs] == ["model.int8.onnx"]
    assert (folder / "model.safetensors").exists() and not (folder / "model.onnx").exists()
