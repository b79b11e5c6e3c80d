"""The step of ``action.yml``, run by bash with the inputs that the action sets."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ACTION = yaml.safe_load((Path(__file__).parent.parent / "action.yml").read_text(encoding="utf-8"))
STEP: dict[str, Any] = ACTION["runs"]["steps"][-1]
ROW = {"prompt": "When?", "contexts": ["The mill was built in 1817."], "answer": "In 1817."}


def run(folder: Path, **inputs: str) -> tuple[int, str]:
    """Run the step; return its exit code and the summary of the job."""
    summary = folder / "summary.md"
    summary.unlink(missing_ok=True)
    environment = os.environ | dict.fromkeys(STEP["env"], "") | inputs
    environment["GITHUB_STEP_SUMMARY"] = str(summary)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    command = ["bash", "-eo", "pipefail", "-c", STEP["run"]]
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return result.returncode, summary.read_text(encoding="utf-8")


def test_the_step_shows_the_summary_and_ends_with_the_exit_code_of_the_command(
    tmp_path: Path,
) -> None:
    rows = [{**ROW, "id": f"q{number}"} for number in range(8)]
    log = tmp_path / "my answers.jsonl"
    log.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    inputs = {"FILE": log.name, "MAP": "question=prompt"}
    code, summary = run(tmp_path, **inputs, FAIL_UNDER="relevance=0.0 faithfulness=0.0")
    assert code == 0 and summary.startswith("### Trivet: passed\n")
    assert re.search(r"means: faithfulness [01]\.\d{3}", summary)
    assert (tmp_path / "trivet-report.html").stat().st_size > 10_000
    (tmp_path / "trivet-verdicts.jsonl").rename(tmp_path / "old.jsonl")
    log.write_text("\n".join(json.dumps({**row, "answer": "A red king."}) for row in rows), "utf-8")
    code, summary = run(tmp_path, **inputs, BASELINE="old.jsonl")
    assert code == 8 and "8 rows fell in faithfulness" in summary
    assert "### Trivet: failed" in summary and "worse than that of --baseline" in summary


def test_a_file_that_is_not_there_is_named_in_the_summary(tmp_path: Path) -> None:
    code, summary = run(tmp_path, FILE="--help")
    assert code == 2 and "no such file: --help" in summary


def test_every_input_reaches_the_step() -> None:
    used = set(re.findall(r"inputs\.([\w-]+)", " ".join(STEP["env"].values())))
    assert used == ACTION["inputs"].keys()
