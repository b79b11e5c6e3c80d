"""Build, compare and time an engine on a real GPU. Needs TensorRT."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from tests.test_importing import save_checkpoint
from trivet.backends.onnx_runtime import OnnxRuntimeBackend
from trivet.backends.opening import load_engine
from trivet.backends.profiles import Sizes, make_windows
from trivet.bundle.backend_info import EnginePrecision
from trivet.bundle.bundle import read_bundle
from trivet.evaluation.evaluator import Evaluator
from trivet.export import export_onnx
from trivet.exporting.tensorrt_export import export_tensorrt
from trivet.importing import import_lettucedetect
from trivet.records import Evaluation, LabelledExample, RagExample

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-3), ("fp16", 0.02)])
def test_an_engine_answers_like_fp32(
    engine_bundle: Path,
    rag_examples: tuple[RagExample, ...],
    dev_rows: tuple[LabelledExample, ...],
    precision: EnginePrecision,
    tolerance: float,
) -> None:
    info = export_tensorrt(engine_bundle, dev_rows, "tiny", precision)
    assert info.difference <= tolerance and info.flipped == 0
    backend = load_engine(read_bundle(engine_bundle), info.precision).backend
    reference = OnnxRuntimeBackend(engine_bundle / "model.onnx")
    for seed, n in enumerate((1, 2, 2, 7)):
        windows = make_windows(Sizes(N=n, L=61, B=1, R=20, K=n, C=90, S=2), 100, seed)
        outputs = backend.run(windows).present()
        for name, expected in reference.run(windows).present().items():
            np.testing.assert_allclose(outputs[name], expected, atol=tolerance)
    on_gpu = Evaluator(engine_bundle, backend="tensorrt", precision=info.precision)
    on_cpu = Evaluator(engine_bundle, device="cpu")
    for output, other in zip(
        on_cpu.evaluate_many(rag_examples), on_gpu.evaluate_many(rag_examples), strict=True
    ):
        assert isinstance(output, Evaluation) and isinstance(other, Evaluation)
        assert output.adherent == other.adherent


def test_fused_attention_builds_or_is_replaced(
    fused_bundle: Path, dev_rows: tuple[LabelledExample, ...]
) -> None:
    info = export_tensorrt(fused_bundle, dev_rows, "tiny")
    assert info.graph in ("model.fp16.onnx", "model.fp16.portable.onnx")


def test_weights_beside_the_graph_are_found(
    apart_bundle: Path, dev_rows: tuple[LabelledExample, ...]
) -> None:
    assert export_tensorrt(apart_bundle, dev_rows, "tiny").flipped == 0


def test_an_imported_detector_is_built(
    tmp_path: Path, dev_rows: tuple[LabelledExample, ...]
) -> None:
    checkpoint = save_checkpoint(tmp_path / "checkpoint", "modernbert")
    import_lettucedetect(str(checkpoint), tmp_path / "bundle", size=512)
    export_onnx(tmp_path / "bundle", keep=("fp32", "fp16"), form="attention", threads=1)
    assert export_tensorrt(tmp_path / "bundle", dev_rows, "tiny").flipped == 0


def test_a_replayed_call_is_no_slower_than_the_first(
    engine_bundle: Path, dev_rows: tuple[LabelledExample, ...]
) -> None:
    export_tensorrt(engine_bundle, dev_rows, "tiny")
    backend = load_engine(read_bundle(engine_bundle)).backend
    windows = make_windows(Sizes(N=2, L=96, B=1, R=20, K=2, C=100, S=1), 100, seed=0)
    seconds = []
    for _ in range(50):
        began = time.perf_counter()
        first = backend.run(windows)
        seconds.append(time.perf_counter() - began)
    assert np.median(seconds[10:]) <= seconds[0]
    assert np.isfinite(first.support_probs).all()
