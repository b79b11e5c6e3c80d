"""TensorRT and CUDA as fakes, and a bundle to build engines from."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from pathlib import Path
from typing import Literal

import pytest

from tests.backends.tensorrt.fakes import FakeCuda, FakeTensorRT, cuda_modules
from tests.graphs import model_of, shared_graphs, write_tiny
from trivet.data.tokenization import SegmentTokenizer
from trivet.data.windows import WindowSettings
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
def weights(wordpiece_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with the weights of a BERT."""
    folder = tmp_path_factory.mktemp("engines") / "weights"
    tokenizer = SegmentTokenizer.from_file(wordpiece_file).to_json()
    return write_tiny(folder, model_of("bert"), tokenizer, window=WindowSettings(size=WINDOW))


@pytest.fixture(scope="session")
def serving_bundle(weights: Path) -> Path:
    """A serving bundle with the graph in fp32 and in fp16."""
    return export(weights, weights.with_name("serving"))


@pytest.fixture
def engine_bundle(serving_bundle: Path, tmp_path: Path) -> Path:
    """A copy of ``serving_bundle`` that a test may change."""
    return Path(shutil.copytree(serving_bundle, tmp_path / "bundle"))


@pytest.fixture(scope="session")
def fused_serving_bundle(weights: Path) -> Path:
    """A serving bundle whose graph in fp16 has ``Attention``."""
    return export(weights, weights.with_name("fused"), form="attention")


@pytest.fixture
def fused_bundle(fused_serving_bundle: Path, tmp_path: Path) -> Path:
    """A copy of ``fused_serving_bundle`` that a test may change."""
    return Path(shutil.copytree(fused_serving_bundle, tmp_path / "fused"))


@pytest.fixture
def apart_bundle(weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle whose graphs have their weights in files beside them."""
    with monkeypatch.context() as patch:
        patch.setattr("trivet.exporting.graph_files.LARGEST_FILE", 10_000)
        return export(weights, tmp_path / "apart")


def export(folder: Path, out: Path, form: Literal["portable", "attention"] = "portable") -> Path:
    """Export fp32 and fp16, and return the folder that has them."""
    with shared_graphs():
        export_onnx(folder, out, keep=("fp32", "fp16"), form=form, threads=1)
    return out


@pytest.fixture
def dev_rows(labelled_examples: tuple[LabelledExample, ...]) -> tuple[LabelledExample, ...]:
    """Rows of one source, with verdicts of both kinds."""
    return tuple(dataclasses.replace(row, source="tiny") for row in labelled_examples)
