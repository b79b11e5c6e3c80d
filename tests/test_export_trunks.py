"""Every kind of trunk becomes one graph that answers as its weights do."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import transformers

from tests.graphs import model_of, shared_graphs, write_tiny
from trivet.backends.onnx_runtime import OnnxRuntimeBackend
from trivet.backends.opening import load_backend
from trivet.backends.profiles import Sizes, make_windows
from trivet.bundle.bundle import read_bundle
from trivet.bundle.info import CalibrationInfo, PlattInfo
from trivet.data.windows import WindowSettings
from trivet.export import export_onnx
from trivet.exporting.parity import FP32_TOLERANCE
from trivet.heads import DEFAULT_HEADS
from trivet.model.architecture import Architecture, Granularity, TrunkKind
from trivet.model.multi_trunk import make_trunk
from trivet.model.rag_model import RagModel
from trivet.model.trunk import Trunk

# Two layers an encoder, four integer matmuls a layer: projections, output, widen, narrow.
OVERLAP: dict[str, float] = {"relevance": 1.5, "utilization": -2.5}
PRODUCTS = {"shared": 2 * 4, "separate": 3 * 2 * 4, "partial": (1 + 3) * 4}


def write_trunk(
    folder: Path,
    encoder: transformers.PreTrainedModel,
    trunk: TrunkKind,
    granularity: Granularity,
) -> Path:
    """Write a bundle whose heads read three encoders, or tops, that all differ."""
    shared = make_trunk(Trunk(encoder), trunk, 1)
    model = RagModel(shared, Architecture(granularity=granularity, lexical_overlap=OVERLAP))
    torch.manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith("heads"):
                parameter.normal_(0, 0.5)
            else:
                parameter.add_(0.05 * torch.randn_like(parameter))
    calibration = CalibrationInfo(
        heads={
            name: PlattInfo(scale=1.0, shift=0.0, lexical_overlap=OVERLAP.get(name, 0.0))
            for name in DEFAULT_HEADS
        }
    )
    return write_tiny(
        folder,
        model,
        window=WindowSettings(size=40),
        calibration=calibration,
        trunk=trunk,
        shared_layers=model.trunk.shared_layers,
        granularity=granularity,
    )


@pytest.mark.parametrize(
    ("encoder", "trunk", "granularity"),
    [
        ("tiny_bert", "separate", "token"),
        ("tiny_deberta", "partial", "example"),
        # Tracing takes its time; test_rag_inference has every pair in torch.
        pytest.param("tiny_bert", "partial", "example", marks=pytest.mark.slow),
        pytest.param("tiny_deberta", "separate", "token", marks=pytest.mark.slow),
    ],
)
def test_one_graph_answers_as_the_weights_do(
    tmp_path: Path,
    request: pytest.FixtureRequest,
    encoder: str,
    trunk: TrunkKind,
    granularity: Granularity,
) -> None:
    model: transformers.PreTrainedModel = request.getfixturevalue(encoder)
    vocab = int(model.config.vocab_size)
    folder = write_trunk(tmp_path / "bundle", model, trunk, granularity)
    report = export_onnx(folder, threads=1)
    assert report.worst["model.onnx"] <= FP32_TOLERANCE
    assert report.worst["model.int8.onnx"] < 0.15
    kinds = Counter(node.op_type for node in onnx.load(folder / "model.int8.onnx").graph.node)
    assert kinds["MatMulIntegerToFloat"] == PRODUCTS[trunk], "a shared part is run once"
    assert read_bundle(folder).info.trunk == trunk
    windows = make_windows(Sizes(N=3, L=20, B=2, R=4, K=2, C=9, S=2), vocab, seed=5)
    overlaps = ("question_overlap", "response_overlap")
    bare = windows._replace(**{name: 0 * getattr(windows, name) for name in overlaps})
    for file in ("model.onnx", "model.int8.onnx"):
        run = OnnxRuntimeBackend(folder / file, threads=1).run
        with_overlaps, without = run(windows)[1:3], run(bare)[1:3]
        for weighed, other in zip(with_overlaps, without, strict=True):
            assert np.abs(weighed - other).max() > 1e-3


def test_weights_that_one_file_cannot_hold_are_written_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_tiny(tmp_path / "bundle", model_of("bert"))
    with monkeypatch.context() as patch, shared_graphs():
        patch.setattr("trivet.exporting.graph_files.LARGEST_FILE", 30_000)
        report = export_onnx(folder, keep=("fp32", "int8", "fp16"), threads=1)
    assert report.worst["model.onnx"] <= FP32_TOLERANCE and report.worst["model.fp16.onnx"] < 0.01
    bundle = read_bundle(folder)
    for file in ("model.onnx", "model.fp16.onnx"):
        graph, weights = bundle.graph_files(file)
        assert bundle.path(graph).stat().st_size < bundle.path(weights).stat().st_size
        # Engines are found by the digest of the graph's file.
        props = {
            metadata_prop.key: metadata_prop.value
            for metadata_prop in onnx.load(folder / graph).metadata_props
        }
        assert props["weights_sha256"] == bundle.manifest.files[weights].sha256
    backend = load_backend(bundle, 1, "fp32", "onnx").backend  # passes the self-test
    assert isinstance(backend, OnnxRuntimeBackend)
    with shared_graphs():
        export_onnx(folder, threads=1)
    assert read_bundle(folder).graph_files("model.onnx") == ("model.onnx",)
    assert not list(folder.glob("*.weights"))
