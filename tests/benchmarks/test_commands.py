"""Every benchmark's command runs on a small case and writes its tables."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from benchmarks.heads import SCORES, cut, last_hidden
from benchmarks.inputs import full_windows
from benchmarks.pipeline import build
from benchmarks.report import Table, spread
from benchmarks.stages import build_host
from benchmarks.timing import Contender, Measured, Race, race
from trivet.backends.loading import EMBEDDED_BUNDLE
from trivet.bundle.bundle import INT8_NAME
from trivet.records import BackendError

SMALL = {
    "cost": ["--seconds", "0.5", "--dollars-a-month", "10"],
    "padding": [],
    "speed": ["--lengths", "64", "--backends", "int8"],
}
ON_CPU = ["--device", "cpu", "--shape", "tiny", "--product", "64", "64", "64", "--lengths", "64"]
SLOW = {
    "card": [*ON_CPU, "--windows", "1", "2", "--contexts", "200", "--others", "20"],
    "cold_start": [],
    "cost": ["--tokens", "64", "--dollars-a-month", "10"],
    "deberta": ["--shape", "tiny", "--length", "64", "--kinds", "stock int8", "ours int8"],
    "heads": ["--length", "64"],
    "padding": ["--backend", "int8"],
    "roofline": ["--lengths", "64", "--backends", "int8", "torch"],
    "stages": ["--lengths", "64", "600"],
    "sweep": ["--lengths", "64", "--batches", "1", "2", "--backends", "int8", "torch"],
    "table5": ["--shape", "tiny", "--context", "600", "--lengths", "256", "128"],
}


def run(name: str, flags: list[str], folder: Path) -> dict[str, list[dict[str, object]]]:
    """Run a benchmark's command with one round; return its tables' rows by title."""
    file = folder / "figures.json"
    main = importlib.import_module(f"benchmarks.{name}").main
    assert main([*flags, "--repeats", "1", "--json", str(file)]) == 0
    report = json.loads(file.read_bytes())
    assert report["benchmark"] == name
    assert report["allocator"]["MALLOC_MMAP_THRESHOLD_"]
    return {table["title"]: table["rows"] for table in report["tables"]}


@pytest.mark.parametrize("name", sorted(SMALL))
def test_a_command_prints_its_tables_and_what_they_were_measured_on(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = run(name, SMALL[name], tmp_path)
    printed = capsys.readouterr().out
    assert all(rows for rows in tables.values())
    assert "MALLOC_TRIM_THRESHOLD_=" in printed
    assert "| --- |" in printed


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SLOW))
def test_every_command_runs_small(name: str, tmp_path: Path) -> None:
    tables = run(name, SLOW[name], tmp_path)
    assert "Not run:" not in tables
    assert all(rows for rows in tables.values())


def test_contenders_take_turns_and_who_cannot_run_says_why() -> None:
    outcome = race(
        [
            Contender("as here", build_host, (EMBEDDED_BUNDLE, False)),
            Contender("absent", build, (EMBEDDED_BUNDLE, "fp32", 1)),
        ],
        repeats=3,
        cases=(64, 128),
    )
    assert set(outcome.measured) == {("as here", 64), ("as here", 128)}
    assert all(len(measured.samples) == 3 for measured in outcome.measured.values())
    assert all(measured.peak_mb > 10 for measured in outcome.measured.values())
    assert "no fp32 graph" in outcome.skipped["absent"]


def test_ratios_are_taken_round_by_round() -> None:
    slow = Measured([{"total": 2.0}, {"total": 9.0}, {"total": 4.0}])
    fast = Measured([{"total": 1.0}, {"total": 3.0}, {"total": 2.0}])
    outcome = Race({("slow", None): slow, ("fast", None): fast})
    assert outcome.ratios("slow", "fast") == [2.0, 3.0, 2.0]
    assert slow.median() == 4.0


def test_a_table_is_markdown_and_a_spread_has_median_least_and_most() -> None:
    table = Table("What:", ("a", "b"), [(1, "x")])
    assert table.to_markdown() == "What:\n\n| a | b |\n| --- | --- |\n| 1 | x |"
    assert spread([3.0, 1.0, 2.0], 1) == "2.0 (1.0 to 3.0)"


def test_a_part_of_the_graph_answers_as_the_whole_does() -> None:
    graph = onnx.load(EMBEDDED_BUNDLE / INT8_NAME)
    windows = full_windows(2, 64, vocabulary=1000)._asdict()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    answers = {}
    for name, part in {"all": graph, "support": cut(graph, SCORES["support"])}.items():
        session = onnxruntime.InferenceSession(
            part.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        feed = {one.name: windows[one.name] for one in session.get_inputs()}
        names = [one.name for one in session.get_outputs()]
        answers[name] = dict(zip(names, session.run(None, feed), strict=True))
    assert set(answers["support"]) == set(SCORES["support"])
    for name, values in answers["support"].items():
        np.testing.assert_allclose(values, answers["all"][name], atol=1e-6)


def test_the_encoder_alone_ends_where_the_heads_begin() -> None:
    graph = onnx.load(EMBEDDED_BUNDLE / INT8_NAME)
    encoder = cut(graph, [last_hidden(graph)])
    assert not [node.name for node in encoder.graph.node if node.name.startswith("heads.")]
    assert not {"context_weight", "response_overlap"} & {v.name for v in encoder.graph.input}
    shared = sum(node.op_type == "MatMulIntegerToFloat" for node in graph.graph.node)
    assert sum(node.op_type == "MatMulIntegerToFloat" for node in encoder.graph.node) == shared
    with pytest.raises(BackendError, match="the graph computes no nothing"):
        cut(graph, ["nothing"])
