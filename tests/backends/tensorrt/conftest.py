"""TensorRT and CUDA as fakes, and a bundle to build engines from."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from pathlib import Path

import pytest

from tests.backends.tensorrt.fakes import FakeCuda, FakeTensorRT, cuda_modules
from tests.graphs import model_of, shared_graphs, write_tiny
from trivet.bundle.schema import WindowInfo
from trivet.data.tokenization import SegmentTokenizer
from trivet.export import export_onnx
from trivet.records import LabelledExample

WINDOW = 96


@pytest.fixture
def fake_cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    """CUDA on this machine's memory."""
    fake = FakeCuda()
    for name, module in cuda_modules(fake).items():
        monkeypatch.setitem(sys.modules, name, module)
    return fake


@pytest.fixture
def fake_tensorrt(monkeypatch: pytest.MonkeyPatch, fake_cuda: FakeCuda) -> FakeTensorRT:
    """TensorRT on that CUDA."""
    fake = FakeTensorRT(fake_cuda)
    monkeypatch.setitem(sys.modules, "tensorrt", fake)
    return fake


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Folder of the test's own engine cache."""
    monkeypatch.setenv("TRIVET_CACHE", str(tmp_path / "engines"))
    return tmp_path / "engines"


@pytest.fixture(scope="session")
def serving_bundle(wordpiece_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A serving bundle with the graph of a BERT in fp32 and in fp16."""
    folder = tmp_path_factory.mktemp("engines")
    tokenizer = SegmentTokenizer.from_file(wordpiece_file).to_json()
    write_tiny(folder / "weights", model_of("bert"), tokenizer, window=WindowInfo(size=WINDOW))
    with shared_graphs():
        export_onnx(folder / "weights", folder / "serving", keep=("fp32", "fp16"), threads=1)
    return folder / "serving"


@pytest.fixture
def engine_bundle(serving_bundle: Path, tmp_path: Path) -> Path:
    """A copy of ``serving_bundle`` that a test may change."""
    return Path(shutil.copytree(serving_bundle, tmp_path / "bundle"))


@pytest.fixture
def fused_bundle(engine_bundle: Path, tmp_path: Path) -> Path:
    """A bundle whose graph in fp16 has ``Attention``."""
    with shared_graphs():
        export_onnx(
            _weights_of(tmp_path, engine_bundle),
            tmp_path / "fused",
            keep=("fp32", "fp16"),
            form="attention",
            threads=1,
        )
    return tmp_path / "fused"


@pytest.fixture
def apart_bundle(engine_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle whose graphs have their weights in files beside them."""
    with monkeypatch.context() as patch:
        patch.setattr("trivet.exporting.graph_files.LARGEST_FILE", 10_000)
        weights = _weights_of(tmp_path, engine_bundle)
        export_onnx(weights, tmp_path / "apart", keep=("fp32", "fp16"), threads=1)
    return tmp_path / "apart"


@pytest.fixture
def weights_bundle(engine_bundle: Path, tmp_path: Path) -> Path:
    """A bundle with its weights and portable graphs."""
    weights = _weights_of(tmp_path, engine_bundle)
    with shared_graphs():
        export_onnx(weights, keep=("fp32", "fp16"), threads=1)
    return weights


def _weights_of(folder: Path, bundle: Path) -> Path:
    tokenizer = (bundle / "tokenizer.json").read_text(encoding="utf-8")
    window = WindowInfo(size=WINDOW)
    return write_tiny(folder / "weights", model_of("bert"), tokenizer, window=window)


@pytest.fixture
def dev_rows(labelled_examples: tuple[LabelledExample, ...]) -> tuple[LabelledExample, ...]:
    """Rows of one source, with verdicts of both kinds."""
    return tuple(dataclasses.replace(each, source="tiny") for each in labelled_examples)
