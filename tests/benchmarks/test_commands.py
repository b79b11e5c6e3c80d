"""Every benchmark's command runs on a small case; the routes through the package stay short."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

GPU = ["--device", "cpu", "--shape", "tiny", "--matmul", "64", "64", "64", "--lengths", "64"]
SLOW = {
    "cold_start": [],
    "deberta": ["--shape", "tiny", "--length", "64", "--kinds", "stock int8", "ours int8"],
    "gpu": [*GPU, "--windows", "1", "2", "--contexts", "200", "--others", "20"],
    "heads": ["--length", "64"],
    "speed": ["--lengths", "64", "600", "--backends", "int8", "torch"],
}


def run(name: str, flags: list[str], folder: Path) -> dict[str, list[dict[str, object]]]:
    """Run a benchmark with one round; return its tables' rows by title."""
    file = folder / "figures.json"
    main = importlib.import_module(f"benchmarks.{name}").main
    assert main([*flags, "--repeats", "1", "--json", str(file)]) == 0
    report = json.loads(file.read_bytes())
    assert report["benchmark"] == name
    assert report["allocator"]["MALLOC_MMAP_THRESHOLD_"]
    return {table["title"]: table["rows"] for table in report["tables"]}


def test_a_command_prints_its_tables_and_the_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = run("speed", ["--lengths", "64", "--backends", "int8"], tmp_path)
    printed = capsys.readouterr().out
    assert all(rows for rows in tables.values())
    assert "MALLOC_TRIM_THRESHOLD_=" in printed and "| --- |" in printed


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SLOW))
def test_every_command_runs_small(name: str, tmp_path: Path) -> None:
    tables = run(name, SLOW[name], tmp_path)
    assert "Not run:" not in tables
    assert all(rows for rows in tables.values())


def test_an_evaluation_and_a_request_cross_few_functions_and_files() -> None:
    command = [sys.executable, "-m", "benchmarks.call_routes"]
    folder = Path(__file__).parents[2]
    printed = subprocess.check_output(command, text=True, cwd=folder)
    found = re.findall(r"(.*): (\d+) functions in (\d+) files", printed)
    most = {"Evaluator.evaluate": (120, 25), "one request": (170, 33)}
    assert [title for title, _, _ in found] == list(most)
    for title, functions, files in found:
        assert int(functions) <= most[title][0] and int(files) <= most[title][1], title


def test_the_times_of_a_stream_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    importlib.import_module("benchmarks.streaming").main(["--tokens", "300", "--sentences", "3"])
    rows = capsys.readouterr().out.splitlines()[-2:]
    assert [row.split(" | ")[1] for row in rows] == ["evidence", "all"]
