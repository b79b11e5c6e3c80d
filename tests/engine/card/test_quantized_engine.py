"""An engine in eight bits is kept by what it loses on labelled rows, and found by its own name."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from trivet.__main__ import app
from trivet.backends.tensorrt_loading import load_engine
from trivet.bundle.bundle import read_bundle
from trivet.evaluation.evaluator import Evaluator
from trivet.exporting import tensorrt as engine_export
from trivet.exporting.quantized import export_quantized
from trivet.exporting.quantized_rows import RowLosses
from trivet.exporting.tensorrt import export_tensorrt
from trivet.records import BackendError, BundleError, LabelledExample

pytestmark = pytest.mark.usefixtures("one_thread", "fake_tensorrt")


@pytest.fixture
def rows(labelled_examples: Sequence[LabelledExample]) -> list[LabelledExample]:
    """Return rows of one source: verdicts of both kinds, and sentences that are relevant."""
    return [dataclasses.replace(row, source="tiny/set") for row in labelled_examples]


@pytest.fixture
def quantized_bundle(
    engine_bundle: Path, rows: list[LabelledExample], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The bundle with a graph in int8 for cards; of random weights any loss will do."""
    monkeypatch.setattr("trivet.exporting.quantized_rows.MOST_LOSS", 1.0)
    export_quantized(engine_bundle, "int8", rows, "tiny", "dev", threads=1)
    return engine_bundle


def test_an_engine_is_built_measured_and_run(
    quantized_bundle: Path, rows: list[LabelledExample]
) -> None:
    info = export_tensorrt(quantized_bundle, "int8-qdq", labelled=rows)
    assert (info.graph, info.rows) == ("model.int8-qdq.onnx", 3)
    # The stand-in computes what the CPU computed when the graph was made.
    (made,) = read_bundle(quantized_bundle).info.quantized
    assert (info.auroc_loss, info.rmse_loss) == (made.auroc_loss, made.rmse_loss)
    assert info.flipped == made.flipped and info.difference > 0
    evaluator = Evaluator(quantized_bundle, backend="tensorrt", precision="int8-qdq")
    assert (evaluator.backend_name, evaluator.precision) == (
        "tensorrt int8-qdq on Card",
        "int8-qdq",
    )
    with pytest.raises(BackendError, match=r"no engine of .*model\.bf16\.onnx"):
        load_engine(read_bundle(quantized_bundle))


def test_an_engine_that_loses_too_much_is_not_kept(
    quantized_bundle: Path,
    rows: list[LabelledExample],
    monkeypatch: pytest.MonkeyPatch,
    own_cache: Path,
) -> None:
    monkeypatch.setattr("trivet.exporting.quantized_rows.MOST_LOSS", 0.005)
    monkeypatch.setattr(engine_export, "measure_losses", lambda *_: RowLosses(0.006, 0.0, 1, 3))
    with pytest.raises(BackendError, match=r"the engine of model\.int8-qdq\.onnx: AUROC -0\.0060"):
        export_tensorrt(quantized_bundle, "int8-qdq", labelled=rows)
    assert read_bundle(quantized_bundle).info.engines == ()
    assert not list(own_cache.glob("*.engine"))


def test_an_engine_that_computes_nonsense_is_not_kept(
    quantized_bundle: Path, rows: list[LabelledExample], fake_tensorrt: Any
) -> None:
    fake_tensorrt._fault = 0.6
    with pytest.raises(BackendError, match=r"must be at most .* in int8-qdq; it was not kept"):
        export_tensorrt(quantized_bundle, "int8-qdq", labelled=rows)


def test_without_labels_or_graph_it_is_said_what_to_do(
    quantized_bundle: Path, rows: list[LabelledExample]
) -> None:
    with pytest.raises(BackendError, match=r"int8-qdq is kept by what it loses on labelled rows"):
        export_tensorrt(quantized_bundle, "int8-qdq", [row.example for row in rows])
    with pytest.raises(
        BundleError, match=r"a graph in fp8-qdq; run .* --data DATA --quantize fp8` where"
    ):
        export_tensorrt(quantized_bundle, "fp8-qdq", labelled=rows)


def test_a_card_without_fp8_is_named(
    quantized_bundle: Path,
    rows: list[LabelledExample],
    fake_cuda: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    export_quantized(quantized_bundle, "fp8", rows, "tiny", "dev", threads=1)
    assert export_tensorrt(quantized_bundle, "fp8-qdq", labelled=rows).flipped >= 0  # 8.9
    success = fake_cuda.cudaError_t.cudaSuccess
    monkeypatch.setattr(
        fake_cuda,
        "cudaGetDeviceProperties",
        lambda _: (success, types.SimpleNamespace(name=b"NVIDIA A10\0", major=8, minor=6)),
    )
    with pytest.raises(BackendError, match=r"NVIDIA A10 has compute capability 8\.6 and no fp8"):
        export_tensorrt(quantized_bundle, "fp8-qdq", labelled=rows)


def test_the_command_calibrates_once_and_builds(
    engine_bundle: Path, rows: list[LabelledExample], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trivet.exporting.quantized_rows.MOST_LOSS", 1.0)
    monkeypatch.setattr("trivet.data.labelled.sources.load_source", lambda *_: (rows, None))
    words = ["export", str(engine_bundle), "--data", "jsonl:dev.jsonl", "--quantize", "int8"]
    first = CliRunner().invoke(app, [*words, "--backend", "tensorrt", "--precision", "fp16"])
    assert first.exit_code == 0, first.output
    assert "model.int8-qdq.onnx: AUROC" in first.output and "engine for Card" in first.output
    bundle = read_bundle(engine_bundle)
    assert [each.precision for each in bundle.info.engines] == ["int8-qdq"]
    assert [each.half for each in bundle.info.quantized] == ["fp16"]
    again = CliRunner().invoke(app, [*words, "--backend", "tensorrt"])
    assert again.exit_code == 0, again.output
    assert "AUROC" not in again.output
    assert read_bundle(engine_bundle).info.quantized == bundle.info.quantized
