"""Candidates for OpenVINO are measured on labelled rows; the fastest accurate one is kept."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from trivet.__main__ import app
from trivet.backends.backend import Backend
from trivet.backends.profiles import Sizes, make_windows
from trivet.bundle.backend_info import MAX_LOSS, Method, OpenVinoCandidate, OpenVinoInfo
from trivet.bundle.bundle import read_bundle
from trivet.bundle.self_test import read_self_test
from trivet.data.windows import Windows
from trivet.errors import BackendError, BundleError
from trivet.evaluation.evaluator import Evaluator
from trivet.exporting import openvino_export
from trivet.exporting.openvino_export import choose, export_openvino, time_windows
from trivet.exporting.parity import losses, measure_results
from trivet.labelled.sources import load_source
from trivet.model.aggregate import Outputs
from trivet.records import Evaluation, LabelledExample

MISSING = [name for name in ("openvino", "nncf") if importlib.util.find_spec(name) is None]
needs_nncf = pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}")


def candidate(method: Method, milliseconds: float, auroc: float, rmse: float) -> OpenVinoCandidate:
    return OpenVinoCandidate(
        method=method, milliseconds=milliseconds, auroc_loss=auroc, rmse_loss=rmse
    )


def test_the_fastest_that_loses_little_enough_is_chosen() -> None:
    half = candidate("half", 40, 0.0, 0.0)
    dynamic = candidate("dynamic", 31, 0.005, -0.01)
    too_far = (candidate("static", 28, 0.0051, 0.0), candidate("static", 28, 0.0, 0.0051))
    for static in too_far:
        assert choose([static, dynamic, half]) is dynamic
    assert choose([half, candidate("static", 28, -0.2, 0.005)]).method == "static"
    with pytest.raises(BackendError, match=r"static: 28\.0 ms per window, AUROC -0\.0051, .*onnx"):
        choose(too_far)


def test_losses_are_the_worst_of_each_kind() -> None:
    auroc, relevance, utilization = (
        (name, "set/mean") for name in ("hallucination_auroc", "relevance_rmse", "utilization_rmse")
    )
    other = ("hallucination_auroc", "other")
    before = {auroc: 0.8, other: 0.7, relevance: 0.2, utilization: 0.1}
    after = {auroc: 0.9, other: 0.68, relevance: 0.17, utilization: 0.11}
    assert losses(before, after) == pytest.approx((0.02, 0.01))
    with pytest.raises(BackendError, match="not with the other: hallucination_auroc of other"):
        losses(before, {key: value for key, value in after.items() if key != other})


def test_the_largest_calls_are_timed_by_turns() -> None:
    order: list[tuple[int, int]] = []

    class Counted:
        def __init__(self, number: int) -> None:
            self.name, self.number = "counted", number

        def run(self, windows: Windows) -> Outputs:
            order.append((self.number, windows.input_ids.shape[1]))
            return Outputs(*(np.zeros(1, np.float32) for _ in Outputs._fields))

    calls = [
        make_windows(Sizes(N=1, L=length, B=1, R=1, K=1, C=1, S=1), 9, 0) for length in range(1, 8)
    ]
    seconds = time_windows([Counted(0), Counted(1)], calls)
    assert len(seconds) == 2 and min(seconds) > 0
    assert {length for _, length in order} == {4, 5, 6, 7}
    assert [number for number, _ in order[:8]] == [0] * 4 + [1] * 4


@pytest.fixture
def rows(labelled_examples: Sequence[LabelledExample]) -> list[LabelledExample]:
    """Return rows of one source: verdicts of both kinds, and sentences that are relevant."""
    return [dataclasses.replace(row, source="tiny/set") for row in labelled_examples]


def export(
    folder: Path,
    rows: Sequence[LabelledExample],
    fastest: Method,
    monkeypatch: pytest.MonkeyPatch,
    keep_fp32: bool,
) -> OpenVinoInfo:
    """Export with times and bounds that let one candidate win."""

    def timed(backends: Sequence[Backend], calls: Sequence[Windows]) -> list[float]:
        assert calls, "the calls of the fp32 backend"
        return [0.01 if method == fastest else 0.02 for method in openvino_export.METHODS]

    monkeypatch.setattr(openvino_export, "time_windows", timed)
    # Heads made by formula amplify any rounding.
    monkeypatch.setattr("trivet.bundle.backend_info.MAX_LOSS", 1.0)
    return export_openvino(folder, rows, "tiny", "dev", keep_fp32=keep_fp32, threads=1)


def test_rounding_that_leaves_answers_without_completeness_refuses_no_backend(
    tiny_bundle: Path, rows: list[LabelledExample]
) -> None:
    judged = Evaluator(tiny_bundle, 1).evaluate_many(row.example for row in rows)
    verdicts = [verdict for verdict in judged if isinstance(verdict, Evaluation)]
    figures = (
        measure_results(
            "any", rows, [dataclasses.replace(v, completeness=share) for v in verdicts], "tiny"
        )
        for share in (0.5, None)
    )
    assert losses(*figures) == (0.0, 0.0)


@needs_nncf
@pytest.mark.parametrize("method", openvino_export.METHODS)
def test_what_is_kept_can_be_loaded_and_is_written_down(
    method: Method,
    tiny_bundle: Path,
    copied: Path,
    rows: list[LabelledExample],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serving = method == "half"  # a serving bundle does without fp32
    info = export(copied, rows, method, monkeypatch, keep_fp32=not serving)
    bundle = read_bundle(copied)
    assert bundle.info.openvino == info and info.rows == 3 and info.method == method
    assert [candidate.method for candidate in info.candidates] == ["static", "dynamic", "half"]
    files = {"model.openvino.xml", "model.openvino.weights"}
    assert files & bundle.manifest.files.keys() == (set() if method == "dynamic" else files)
    expected = read_self_test(bundle.path("self_test.json")).expected
    assert {info.answers(bf16=False), "model.int8.onnx", "model.safetensors"} <= expected.keys()
    worst = json.loads(bundle.path("parity.json").read_text())["worst"]
    assert worst[f"{info.file} in OpenVINO"] == info.difference
    assert "For OpenVINO" in (copied / "README.md").read_text()

    evaluator = Evaluator(copied, 1, backend="openvino")
    assert evaluator.precision == ("bf16" if method == "half" else "int8")
    assert evaluator.backend_name == f"openvino {info.file}"
    fp32 = Evaluator(tiny_bundle, 1, precision="fp32")
    (verdict,), (wanted,) = (judge.evaluate_many([rows[0].example]) for judge in (evaluator, fp32))
    assert isinstance(verdict, Evaluation) and isinstance(wanted, Evaluation)
    assert verdict.relevance == pytest.approx(wanted.relevance, abs=0.1)

    assert bundle.has("model.onnx") == ("model.onnx" in expected) == (not serving)
    if serving:
        assert [graph.file for graph in bundle.info.graphs] == ["model.int8.onnx"]
        with pytest.raises(BundleError, match=r"no model\.onnx"):
            export_openvino(copied, rows, "tiny", "dev")


# Sentences of a context, and others that it does not support.
FACTS = (
    ("The mill was built in 1817.", "The mill was built in 1917."),
    ("The ferry is red.", "The ferry is green and yellow."),
    ("Anna Berg keeps the lighthouse.", "The lighthouse has been empty since the war."),
    ("The bridge is 300 metres long.", "The bridge was burnt by soldiers."),
)


@pytest.mark.slow
@needs_nncf
def test_the_embedded_model_is_exported_and_answers_as_before(tmp_path: Path) -> None:
    written = []
    for fact, wrong in FACTS:
        for response, expected in ((fact, True), (wrong, False)):
            marks = [[0, 0, len(fact)]]
            used = marks if expected else []
            labels = {"adherent": expected, "relevant": marks, "utilized": used}
            texts = {"contexts": [f"{fact} It rained."], "response": response}
            written.append({"question": "What is true?", **texts, "group": fact, "labels": labels})
    data, out = tmp_path / "facts.jsonl", tmp_path / "out"
    data.write_text("\n".join(map(json.dumps, written)), encoding="utf-8")
    words = ["--data", f"jsonl:{data}", "--split", "all", "--out", str(out), "--threads", "1"]
    result = CliRunner().invoke(app, ["export", "openvino", "embedded", *words])
    assert result.exit_code == 0, result.exception

    rows, _ = load_source(f"jsonl:{data}")
    measured = []
    for evaluator in (
        Evaluator("embedded", 1, backend="torch", device="cpu"),
        Evaluator(out, 1, backend="openvino"),
    ):
        verdicts = list(evaluator.evaluate_many(row.example for row in rows))
        adherent = [isinstance(verdict, Evaluation) and verdict.adherent for verdict in verdicts]
        assert adherent == [True, False] * len(FACTS), evaluator.backend_name
        measured.append(measure_results(evaluator.backend_name, rows, verdicts, "facts"))
    kept = read_bundle(out).info.openvino
    assert kept is not None and evaluator.backend_name == f"openvino {kept.file}"
    assert max(losses(*measured)) <= MAX_LOSS


@needs_nncf
def test_nothing_is_written_where_nothing_is_good_enough(
    copied: Path, rows: list[LabelledExample], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (copied / "MANIFEST.json").read_bytes()
    monkeypatch.setattr(openvino_export, "losses", lambda *_: (0.0, 0.2))
    with pytest.raises(BackendError, match=r"no candidate for OpenVINO loses at most 0\.005"):
        export_openvino(copied, rows, "tiny", "dev", threads=1)
    assert (copied / "MANIFEST.json").read_bytes() == before
