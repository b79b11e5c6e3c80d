"""``trivet export onnx --precision bf16`` writes and compares a graph for TensorRT."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
import transformers
from onnx import TensorProto

from trivet.backends.tensorrt_loading import find_graph
from trivet.bundle.bundle import BundleInfo, read_bundle, write_bundle
from trivet.bundle.self_test import read_self_test
from trivet.data.tokenization import SegmentTokenizer
from trivet.export import export_onnx
from trivet.exporting.graph import trace
from trivet.exporting.int8 import quantize
from trivet.model.inference.rag_inference import inference_model
from trivet.model.rag_model import RagModel
from trivet.model.trunk import Trunk

WINDOW = 48

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def with_weights(
    tmp_path: Path,
    wordpiece_file: Path,
    tiny_info: Callable[[SegmentTokenizer], BundleInfo],
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A bundle with weights, whose graph is traced once for every precision."""
    torch.manual_seed(4)
    tokenizer = SegmentTokenizer.from_file(wordpiece_file)
    config = transformers.BertConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=WINDOW,
    )
    model = RagModel(Trunk(transformers.BertModel(config, add_pooling_layer=False))).eval()
    write_bundle(
        tmp_path / "bundle",
        tiny_info(tokenizer),
        tokenizer.to_json(),
        weights=model.state_dict(),
        encoder_config=model.architecture(),
    )
    graph = trace(inference_model(model, WINDOW), config.vocab_size)

    def write_graphs(model: RagModel, window: int, folder: Path, *extra: str) -> dict[str, Path]:
        paths = {"fp32": folder / "model.onnx", "int8": folder / "model.int8.onnx"}
        onnx.save(graph, paths["fp32"])
        onnx.save(quantize(graph), paths["int8"])
        return paths

    monkeypatch.setattr("trivet.export._write_graphs", write_graphs)
    return tmp_path / "bundle"


def test_a_16_bit_graph_is_written_compared_and_found(with_weights: Path, tmp_path: Path) -> None:
    serving = tmp_path / "serving"
    report = export_onnx(with_weights, serving, keep=("fp32", "int8", "bf16"), threads=1)
    bundle = read_bundle(serving)
    assert [(graph.file, graph.precision) for graph in bundle.info.graphs] == [
        ("model.onnx", "fp32"),
        ("model.int8.onnx", "int8"),
        ("model.bf16.onnx", "bf16"),
    ]
    graph = find_graph(bundle, "bf16")
    assert graph.portable and graph.difference == report.worst["model.bf16.onnx"]
    assert 0 < report.worst["model.bf16.onnx"] < 0.02
    assert read_self_test(bundle.path("self_test.json")).expected[graph.file].precision == "bf16"
    stored = {tensor.data_type for tensor in onnx.load(serving / graph.file).graph.initializer}
    assert TensorProto.BFLOAT16 in stored


def test_a_16_bit_graph_of_older_weights_goes(with_weights: Path) -> None:
    export_onnx(with_weights, keep=("fp32", "int8", "fp16"), threads=1)
    assert (with_weights / "model.fp16.onnx").exists()
    export_onnx(with_weights, threads=1)
    assert not (with_weights / "model.fp16.onnx").exists()
    assert len(read_bundle(with_weights).info.graphs) == 2
