"""The pytest plugin in a run of its own."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

TESTS = """
PASSAGE = "The stone bridge was built in 1884 by the town."

def test_good(assert_faithful):
    verdict = assert_faithful("When was the bridge built?", PASSAGE, "It was built in 1884.")
    assert verdict.id.endswith("::test_good")

def test_bad(assert_faithful):
    assert_faithful("When was the bridge built?", [PASSAGE], "The king paid for a red tower.")

def test_limit(assert_faithful, judge):
    assert_faithful("When?", PASSAGE, "It was built in 1884.", at_least=1.01)

def test_threshold(assert_faithful):
    assert_faithful("When?", PASSAGE, "It was built in 1884.", threshold=1.0)
"""


def test_failures_show_the_spans_and_the_report_all_answers(tmp_path: Path) -> None:
    (tmp_path / "test_bot.py").write_text(TESTS, encoding="utf-8")
    words = ["--trivet-report", "report.html"]
    if not importlib.metadata.entry_points(group="pytest11", name="trivet"):  # not installed
        words += ["-p", "trivet.integrations.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words, "test_bot.py"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8")
    assert result.returncode == 1, result.stdout + result.stderr
    assert "3 failed, 1 passed" in result.stdout
    assert "the answer is unsupported: faithfulness 0." in result.stdout
    assert "unsupported" in result.stdout and "[The king paid" in result.stdout
    assert "is below 1.01" in result.stdout
    lines = (tmp_path / "report.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["id"].partition("::")[2] for line in lines] == [
        *("test_good", "test_bad", "test_limit", "test_threshold")
    ]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "The king paid" in page and page.rstrip().endswith("</html>")


def test_a_run_without_its_fixtures_loads_nothing_else() -> None:
    code = (
        "import pytest, sys; import trivet.integrations.pytest_plugin\n"
        "print(sorted(name for name in sys.modules if name.startswith('trivet.')))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout == "['trivet.integrations', 'trivet.integrations.pytest_plugin']\n"
