"""``trivet export --quantize``: calibrated and measured on labelled rows, and for no CPU."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest
from typer.testing import CliRunner

from trivet.__main__ import app
from trivet.backends.graph_choice import choose_graph
from trivet.backends.tensorrt_loading import find_graph
from trivet.bundle.bundle import read_bundle
from trivet.bundle.self_test import read_self_test
from trivet.evaluation.evaluator import Evaluator
from trivet.exporting import quantized as quantized_export
from trivet.exporting.qdq import EightBit, rounded_products
from trivet.exporting.quantized import export_quantized
from trivet.exporting.quantized_rows import RowLosses, check_losses
from trivet.records import BackendError, BundleError, DataError, LabelledExample, Labels

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def rows(labelled_examples: Sequence[LabelledExample]) -> list[LabelledExample]:
    """Return rows of one source: verdicts of both kinds, and sentences that are relevant."""
    return [dataclasses.replace(row, source="tiny/set") for row in labelled_examples]


@pytest.fixture
def lenient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rows and random weights: any loss will do."""
    monkeypatch.setattr("trivet.exporting.quantized_rows.MOST_LOSS", 1.0)


@pytest.mark.usefixtures("lenient")
@pytest.mark.parametrize("kind", ["int8", "fp8"])
def test_a_graph_is_calibrated_measured_and_written_down(
    kind: EightBit, engine_bundle: Path, rows: list[LabelledExample]
) -> None:
    info = export_quantized(engine_bundle, kind, rows, "tiny", "dev", half="fp16", threads=1)
    bundle = read_bundle(engine_bundle)
    assert bundle.info.quantized == (info,) and bundle.has(f"model.{kind}-qdq.onnx")
    assert (info.precision, info.half, info.rows) == (f"{kind}-qdq", "fp16", 3)
    assert 0 < info.calls <= 100
    graph = find_graph(bundle, f"{kind}-qdq")  # type: ignore[arg-type]
    assert graph.file == info.file and graph.difference is not None and 0 < graph.difference < 0.5
    stored = onnx.load(bundle.path(info.file))
    products = [node for node in stored.graph.node if node.op_type == "QuantizeLinear"]
    wanted = rounded_products(onnx.load(bundle.path("model.onnx")).graph, kind)
    assert len(products) == len(wanted) == {"int8": 6, "fp8": 8}[kind]
    expected = read_self_test(bundle.path("self_test.json")).expected[info.file]
    assert expected.precision == info.precision
    card = (engine_bundle / "README.md").read_text()
    assert f"`{info.file}`" in card and "3 rows of tiny (dev)" in card
    # Made anew it takes the place of the first, and the other kind stands beside it.
    export_quantized(engine_bundle, kind, rows, "tiny", "dev", threads=1)
    assert [each.half for each in read_bundle(engine_bundle).info.quantized] == ["bf16"]
    assert len(read_bundle(engine_bundle).info.graphs) == 3


@pytest.mark.usefixtures("lenient")
def test_no_cpu_runs_it(engine_bundle: Path, rows: list[LabelledExample]) -> None:
    export_quantized(engine_bundle, "int8", rows, "tiny", "dev", threads=1)
    bundle = read_bundle(engine_bundle)
    assert choose_graph(bundle, None).file == "model.onnx"
    with pytest.raises(BundleError, match="no int8 graph"):
        choose_graph(bundle, "int8")
    assert Evaluator(engine_bundle, 1).backend_name == "onnxruntime model.onnx"
    with pytest.raises(BundleError, match="int8-qdq is for GPUs"):
        Evaluator(engine_bundle, 1, precision="int8-qdq")
    with pytest.raises(BundleError, match="no fp8-qdq for OpenVINO"):
        Evaluator(engine_bundle, 1, backend="openvino", precision="fp8-qdq")


def test_parity_is_added_where_there_is_some(
    engine_bundle: Path, rows: list[LabelledExample], lenient: None
) -> None:
    from trivet.backends.example_windows import make_windows
    from trivet.backends.onnx_runtime import OnnxRuntimeBackend
    from trivet.bundle.bundle import add_files
    from trivet.exporting.parity import compare, grid

    backend = OnnxRuntimeBackend(engine_bundle / "model.onnx", 1)
    bundle = read_bundle(engine_bundle)
    cases = [(sizes, make_windows(sizes, 100, seed=0)) for sizes in grid(bundle.info.window.size)]
    report = compare(
        lambda windows: backend.run(windows)._asdict(),
        {"model.onnx": lambda windows: backend.run(windows)._asdict()},
        cases,
    )
    add_files(engine_bundle, {"parity.json": report.to_json().encode()})
    export_quantized(engine_bundle, "int8", rows, "tiny", "dev", threads=1)
    worst = json.loads((engine_bundle / "parity.json").read_text())["worst"]
    (graph,) = (each for each in read_bundle(engine_bundle).info.graphs if "qdq" in each.file)
    assert worst == {"model.onnx": 0.0, "model.int8-qdq.onnx": graph.difference}


def test_nothing_is_written_where_too_much_is_lost(
    engine_bundle: Path, rows: list[LabelledExample], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (engine_bundle / "MANIFEST.json").read_bytes()
    monkeypatch.setattr(
        quantized_export, "measure_losses", lambda *_: RowLosses(0.001, 0.0051, 2, 3)
    )
    with pytest.raises(
        BackendError,
        match=r"model\.fp8-qdq\.onnx: AUROC -0\.0010, RMSE \+0\.0051, 2 of 3 verdicts changed; "
        r"AUROC and RMSE may lose at most 0\.005",
    ):
        export_quantized(engine_bundle, "fp8", rows, "tiny", "dev", threads=1)
    assert (engine_bundle / "MANIFEST.json").read_bytes() == before


def test_what_may_be_lost_is_the_same_of_both() -> None:
    check_losses(RowLosses(0.005, -0.2, 3, 3), "a graph")
    check_losses(RowLosses(-0.2, 0.005, 0, 3), "a graph")
    for lost in (RowLosses(0.0051, 0.0, 0, 3), RowLosses(0.0, 0.0051, 0, 3)):
        with pytest.raises(BackendError, match="a graph: AUROC"):
            check_losses(lost, "a graph")


def test_rows_that_measure_nothing_are_refused(
    engine_bundle: Path, rows: list[LabelledExample]
) -> None:
    bare = [dataclasses.replace(row, labels=Labels(adherent=True)) for row in rows]
    with pytest.raises(DataError, match="tiny: no AUROC and RMSE"):
        export_quantized(engine_bundle, "int8", bare, "tiny", "dev", threads=1)


def test_the_command_line_says_what_belongs_together(engine_bundle: Path) -> None:
    def call(*words: str) -> str:
        answer = CliRunner().invoke(app, ["export", str(engine_bundle), *words])
        assert answer.exit_code == 2
        return " ".join(answer.output.replace("│", " ").split())

    rows = ("--data", "jsonl:dev.jsonl")
    for words in (
        ("--quantize", "int8"),
        ("--quantize", "int8", *rows, "--backend", "openvino"),
        ("--quantize", "fp8", *rows, "--precision", "fp32"),
        ("--quantize", "fp8", *rows, "--precision", "int8"),
    ):
        assert "finds ranges and measures losses on --data DATA" in call(*words)
    assert "int8-qdq is made by --quantize int8" in call("--precision", "int8-qdq")
    both = ("--triton", "repository", "--encoder", "tensorrt", "--quantize", "int8")
    assert "--triton builds no graph and no engine" in call(*both)
