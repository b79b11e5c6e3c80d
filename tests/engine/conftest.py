"""Tiny graphs and bundles for engines, what TensorRT reads, and a cache of each test's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import transformers
from onnx import TensorProto, numpy_helper

from tests.relative_attention import RELATIVE
from trivet.backends.example_windows import Sizes, make_windows
from trivet.bundle.bundle import GRAPH_NAME, BundleInfo, GraphInfo, write_bundle
from trivet.bundle.self_test import SelfTest
from trivet.data.tokenization import SegmentTokenizer
from trivet.exporting.graph import ATTENTION_OPSET, OPSET, trace
from trivet.exporting.precision import emulated, mixed
from trivet.model.aggregate import Outputs
from trivet.model.inference.rag_inference import inference_model
from trivet.model.rag_model import RagModel
from trivet.model.trunk import Trunk

WINDOW = 96
NAMES: dict[int, str] = {
    TensorProto.FLOAT: "FP32",
    TensorProto.FLOAT16: "FP16",
    TensorProto.BFLOAT16: "BF16",
    TensorProto.INT8: "INT8",
    TensorProto.FLOAT8E4M3FN: "FP8",
    TensorProto.INT32: "INT32",
    TensorProto.INT64: "INT64",
    TensorProto.BOOL: "BOOL",
}


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Engines of a test stay in its own folder."""
    monkeypatch.setenv("TRIVET_CACHE", str(tmp_path / "engines"))
    return tmp_path / "engines"


@pytest.fixture(scope="session")
def tiny_graph(wordpiece_file: Path) -> onnx.ModelProto:
    """The fp32 graph of a two-layer BERT with windows of 96 positions."""
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=SegmentTokenizer.from_file(wordpiece_file).vocab_size,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=WINDOW,
        type_vocab_size=2,
        initializer_range=0.1,
    )
    encoder = transformers.BertModel(config, add_pooling_layer=False)
    model = RagModel(Trunk(encoder), pooled_support=True).eval()
    return trace(inference_model(model, WINDOW), config.vocab_size)


@pytest.fixture
def engine_bundle(
    tmp_path: Path,
    wordpiece_file: Path,
    tiny_graph: onnx.ModelProto,
    tiny_info: Callable[[SegmentTokenizer], BundleInfo],
) -> Path:
    """A serving bundle that holds ``tiny_graph`` in fp32 and in bf16."""
    tokenizer = SegmentTokenizer.from_file(wordpiece_file)
    sizes = Sizes(N=3, L=40, B=2, R=9, K=2, C=23, S=3)
    windows = make_windows(sizes, tokenizer.vocab_size, seed=7)
    files: dict[str, bytes | Path] = {}
    answers = {}
    for file, precision, graph in (
        (GRAPH_NAME, "fp32", tiny_graph),
        ("model.bf16.onnx", "bf16", mixed(tiny_graph, "bf16")),
    ):
        files[file] = graph.SerializeToString()
        session = onnxruntime.InferenceSession(
            emulated(graph).SerializeToString(), providers=["CPUExecutionProvider"]
        )
        found = session.run(list(Outputs._fields), windows._asdict())
        answers[file] = (precision, dict(zip(Outputs._fields, found, strict=True)))
    files["self_test.json"] = SelfTest.record(windows._asdict(), answers).to_json().encode()
    graphs = (
        GraphInfo(file=GRAPH_NAME, precision="fp32", opset=OPSET, portable=True),
        GraphInfo(file="model.bf16.onnx", precision="bf16", opset=OPSET, portable=True),
    )
    info = tiny_info(tokenizer)
    window = info.window.model_copy(update={"size": WINDOW})
    write_bundle(
        tmp_path / "bundle",
        info.model_copy(update={"graphs": graphs, "window": window}),
        tokenizer.to_json(),
        extra=files,
    )
    return tmp_path / "bundle"


@pytest.fixture(scope="session", params=["bert", "deberta", "deberta-attention"])
def graph(request: pytest.FixtureRequest) -> onnx.ModelProto:
    """A traced fp32 graph of each encoder; with trained-size weights, not wild ones."""
    torch.manual_seed(2)
    sizes: dict[str, Any] = {
        "vocab_size": 300,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 64,
        "initializer_range": 0.1,
    }
    if request.param == "bert":
        encoder: transformers.PreTrainedModel = transformers.BertModel(
            transformers.BertConfig(type_vocab_size=2, **sizes), add_pooling_layer=False
        )
    else:
        sizes |= RELATIVE
        encoder = transformers.DebertaV2Model(transformers.DebertaV2Config(**sizes))
    model = RagModel(Trunk(encoder), pooled_support=True).eval()
    if request.param == "deberta-attention":
        return trace(inference_model(model, 48, "attention"), 300, ATTENTION_OPSET)
    return trace(inference_model(model, 48), 300, OPSET)


@pytest.fixture(scope="session")
def types_of() -> Callable[[onnx.ModelProto], dict[str, int]]:
    """Return a function: the type of every tensor, as ONNX infers it by itself."""

    def infer(graph: onnx.ModelProto) -> dict[str, int]:
        bare = onnx.ModelProto()
        bare.CopyFrom(graph)
        del bare.graph.value_info[:]
        inferred = onnx.shape_inference.infer_shapes(bare, strict_mode=True).graph
        values = (*inferred.input, *inferred.output, *inferred.value_info)
        types = {value.name: value.type.tensor_type.elem_type for value in values}
        return types | {tensor.name: tensor.data_type for tensor in inferred.initializer}

    return infer


@pytest.fixture(scope="session")
def table() -> Mapping[str, Any]:
    """What TensorRT's ONNX parser supports."""
    found: Mapping[str, Any] = json.loads((Path(__file__).parent / "operators.json").read_text())
    return found


@pytest.fixture(scope="session")
def check_operators(
    types_of: Callable[[onnx.ModelProto], dict[str, int]], table: Mapping[str, Any]
) -> Callable[[onnx.ModelProto], None]:
    """Return a function that fails on a graph that TensorRT's parser would not read."""

    def check(emitted: onnx.ModelProto) -> None:
        types = types_of(emitted)
        constants = {tensor.name: tensor for tensor in emitted.graph.initializer}
        (opset,) = emitted.opset_import
        assert opset.domain == "" and table["opsets"][0] <= opset.version <= table["opsets"][1]
        for node in emitted.graph.node:
            assert node.op_type in table["operators"], node.op_type
            # The condition of Where is bool, indices and shapes are integers: only values count.
            values = node.input[1:] if node.op_type == "Where" else node.input[:1]
            for name in values:
                assert NAMES[types[name]] in table["operators"][node.op_type], (node.op_type, name)
            place = table["constant_input"].get(node.op_type)
            if place is not None and len(node.input) > place:
                assert node.input[place] in constants, node.name
            if node.op_type == "LayerNormalization":
                assert [name for name in node.output if name] == list(node.output[:1])
            if node.op_type == "Attention":
                assert len([name for name in node.input if name]) == 4
                assert {each.name for each in node.attribute} <= {"scale", "softmax_precision"}
                assert len([name for name in node.output if name]) == 1
            if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
                assert set(node.input[1:]) <= constants.keys(), "scales are known at build time"
                zero, scale = (numpy_helper.to_array(constants[node.input[at]]) for at in (2, 1))
                assert not zero.astype(np.float32).any() and zero.shape == scale.shape, node.name

    return check
