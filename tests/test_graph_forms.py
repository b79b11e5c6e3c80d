"""The graphs that are emitted: how many nodes a layer costs, and that every form answers alike."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import transformers

from tests.relative_attention import RELATIVE
from trivet import export
from trivet.backends.example_windows import Sizes, make_windows
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
from trivet.bundle.schema import OUTPUTS
from trivet.exporting.graph import ATTENTION_OPSET, OPSET, trace
from trivet.exporting.parity import FP32_TOLERANCE, compare, grid
from trivet.model.inference.layer import Form
from trivet.model.inference.rag_inference import inference_model
from trivet.model.rag_model import RagModel, as_tensors
from trivet.model.trunk import Trunk
from trivet.records import BackendError

WINDOW, VOCAB, LAYERS = 48, 120, 2
OPSETS: dict[Form, int] = {"portable": OPSET, "attention": ATTENTION_OPSET}
# Nodes a layer may cost; the reference measured 43 and 35 on a prototype.
BUDGET: dict[Form, int] = {"portable": 45, "attention": 36}
# What computes buckets of distances, or copies a table, at run time.
NEVER = {"Log", "Ceil", "Sign", "Range", "Tile", "Clip"}
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
}


@functools.cache
def model_of(kind: str) -> RagModel:
    torch.manual_seed(1)
    if kind == "bert":
        bert = transformers.BertConfig(type_vocab_size=2, **SIZES)
        return RagModel(Trunk(transformers.BertModel(bert, add_pooling_layer=False))).eval()
    deberta = transformers.DebertaV2Config(**SIZES, **RELATIVE)
    return RagModel(Trunk(transformers.DebertaV2Model(deberta))).eval()


@functools.cache
def graph_of(kind: str, form: Form) -> onnx.ModelProto:
    """Trace each once; the tests share them."""
    return trace(inference_model(model_of(kind), WINDOW, form), VOCAB, OPSETS[form])


@pytest.fixture(params=["deberta-v2", "bert"])
def kind(request: pytest.FixtureRequest) -> str:
    """Return the encoder's model type."""
    return str(request.param)


@pytest.fixture(params=["portable", "attention"])
def form(request: pytest.FixtureRequest) -> Form:
    """Return a form that torch can run and export."""
    found: Form = request.param
    return found


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
    products = 4 + 2 * (form == "portable") + 2 * (kind == "deberta-v2")
    assert kinds["MatMul"] == products
    assert kinds["Attention"] == (form == "attention")


def test_nothing_is_computed_that_is_the_same_in_every_call(kind: str, form: Form) -> None:
    graph = graph_of(kind, form)
    assert not NEVER & {node.op_type for node in graph.graph.node}
    shapes = [tuple(tensor.dims) for tensor in graph.graph.initializer]
    assert shapes.count((WINDOW, WINDOW)) == (kind == "deberta-v2"), "one index for all layers"


def test_sizes_that_are_constant_stay_in_the_graph(kind: str, form: Form) -> None:
    graph = graph_of(kind, form).graph
    constants = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    noted = {
        value.name: [size.dim_value for size in value.type.tensor_type.shape.dim]
        for value in graph.value_info
        if value.name in constants
    }
    assert noted and noted == {name: constants[name] for name in noted}


def test_a_reference_that_is_not_finite_is_named() -> None:
    sizes = Sizes(1, 1, 1, 1, 1, 1, 1)
    fine = {info.name: np.zeros((1,) * len(info.dims), np.float32) for info in OUTPUTS}
    broken = fine | {"relevance": np.array([np.nan], np.float32)}
    windows = make_windows(sizes, VOCAB, seed=0)
    with pytest.raises(BackendError, match=r"the reference: relevance is not finite on Sizes"):
        compare(lambda _: broken, {"engine": lambda _: fine}, [(sizes, windows)])


def test_the_attention_operator_is_told_all_and_asked_for_one_thing(kind: str) -> None:
    graph = graph_of(kind, "attention")
    assert [(opset.domain, opset.version) for opset in graph.opset_import] == [("", 23)]
    onnx.checker.check_model(graph, full_check=True)
    attends = [node for node in graph.graph.node if node.op_type == "Attention"]
    assert len(attends) == LAYERS
    for node in attends:
        given = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        assert given["scale"] == 1.0, "it is folded into the weights"
        assert len(node.input) == 4 and all(node.input), "queries, keys, values, mask"
        assert len(node.output) == 1, "no caches of keys and values"


def test_every_form_answers_as_the_library_does(kind: str, form: Form) -> None:
    graph = graph_of(kind, form).SerializeToString()
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    cases = (*grid(WINDOW), Sizes(N=4, L=47, B=3, R=5, K=2, C=9, S=2))
    for seed, sizes in enumerate(cases):
        windows = make_windows(sizes, VOCAB, seed)
        with torch.inference_mode():
            expected = model_of(kind)(*as_tensors(windows))
        for name, found in zip(
            expected._fields, session.run(list(expected._fields), windows._asdict()), strict=True
        ):
            off = np.abs(getattr(expected, name).numpy() - found).max()
            assert off <= FP32_TOLERANCE, (name, sizes)


def test_the_attention_form_is_written_beside_the_others_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_opset = {opset: form for form, opset in OPSETS.items()}
    # A DeBERTa has standard operators in the form for ONNX Runtime too: the portable one does.
    monkeypatch.setattr(export, "trace", lambda *given: graph_of("deberta-v2", by_opset[given[2]]))
    model = model_of("deberta-v2")
    info = BundleInfo(
        package_version="0",
        name="tiny",
        encoder=EncoderInfo(
            model_type="deberta-v2", hidden_size=16, layers=2, source="random", licence="none"
        ),
        window=WindowInfo(size=WINDOW),
        faithfulness="weakest_sentence",
        heads=("support", "relevance", "utilization"),
        thresholds=Thresholds(0.5, 0.5, 0.5),
        special_tokens=SpecialTokenIds(cls=2, sep=3, pad=0),
        training=TrainingInfo(command="none", date="2026-01-31", data=()),
    )
    folder = tmp_path / "bundle"
    weights, described = model.state_dict(), model.architecture()
    write_bundle(folder, info, "{}", weights=weights, encoder_config=described)
    report = export.export_onnx(folder, form="attention", threads=1)
    assert report.worst["model.attention.onnx"] <= FP32_TOLERANCE
    found = [
        (graph.file, graph.precision, graph.opset, graph.portable)
        for graph in read_bundle(folder).info.graphs
    ]
    assert found == [
        ("model.onnx", "fp32", OPSET, True),
        ("model.int8.onnx", "int8", OPSET, False),
        ("model.attention.onnx", "fp32", ATTENTION_OPSET, True),
    ]
    export.export_onnx(folder, tmp_path / "serving", form="attention", threads=1)
    files = [graph.file for graph in read_bundle(tmp_path / "serving").info.graphs]
    assert files == ["model.int8.onnx", "model.attention.onnx"]
    export.export_onnx(folder, keep=("fp32",), threads=1)
    assert not (folder / "model.attention.onnx").exists()
