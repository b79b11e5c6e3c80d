"""Tiny graphs and bundles for engines, and a cache of each test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import onnxruntime
import pytest
import torch
import transformers

from trivet.data.tokens import SegmentTokenizer
from trivet.model.aggregate import Outputs
from trivet.model.bundle import GRAPH_NAME, BundleInfo, GraphInfo, write_bundle
from trivet.model.example_windows import Sizes, make_windows
from trivet.model.graph import OPSET, trace
from trivet.model.inference import inference_model
from trivet.model.precision import emulated, mixed
from trivet.model.rag_model import RagModel
from trivet.model.self_test import SelfTest
from trivet.model.trunk import Trunk

WINDOW = 96


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
