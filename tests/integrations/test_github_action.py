"""The script of the GitHub Action, with its inputs as ``action.yml`` names them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

ACTION = Path(__file__).resolve().parents[2] / "action.yml"
ROW = {"prompt": "When?", "contexts": ["The mill was built in 1817."], "answer": "In 1817."}


def run(folder: Path, **inputs: str) -> tuple[int, str]:
    """Run the script; return its exit code and the summary of the job."""
    summary = folder / "summary.md"
    summary.unlink(missing_ok=True)
    variables = {f"TRIVET_{name}": value for name, value in inputs.items()}
    environment = os.environ | variables | {"GITHUB_STEP_SUMMARY": str(summary)}
    script = [sys.executable, "-m", "trivet.integrations.github_action"]
    result = subprocess.run(script, cwd=folder, env=environment, capture_output=True, text=True)
    return result.returncode, summary.read_text(encoding="utf-8")


def test_the_table_shows_the_scores_and_the_exit_code_is_that_of_the_command(
    tmp_path: Path,
) -> None:
    rows = [{**ROW, "id": f"q{number}"} for number in range(8)]
    log = tmp_path / "answers.jsonl"
    log.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    inputs = {"FILE": log.name, "MAP": "question=prompt"}
    code, table = run(tmp_path, **inputs, FAIL_UNDER="relevance=0.0")
    assert code == 0 and table.startswith("### Trivet: passed\n")
    assert re.search(r"\| faithfulness \| 0\.\d{3} \| 8 \|", table) or "| 1.000 | 8 |" in table
    assert (tmp_path / "trivet-report.html").stat().st_size > 10_000
    (tmp_path / "trivet-verdicts.jsonl").rename(tmp_path / "old.jsonl")
    log.write_text("\n".join(json.dumps({**row, "answer": "A red king."}) for row in rows), "utf-8")
    code, table = run(tmp_path, **inputs, BASELINE="old.jsonl", FAIL_UNDER="faithfulness=0.0")
    assert code == 8 and "8 rows fell in faithfulness" in table
    assert "### Trivet: failed" in table and "worse than that of --baseline" in table


def test_a_file_that_is_not_there_is_named_in_the_summary(tmp_path: Path) -> None:
    code, table = run(tmp_path, FILE="--help")
    assert code == 2 and "no such file: --help" in table


def test_the_action_sets_what_the_script_reads() -> None:
    action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    step = action["runs"]["steps"][-1]
    module = step["run"].removeprefix("python -m ").replace(".", "/")
    source = (ACTION.parent / f"{module}.py").read_text(encoding="utf-8")
    names = {name.removeprefix("TRIVET_") for name in step["env"]} - {"GH_TOKEN"}
    assert all(f'"{name}"' in source or f"TRIVET_{name}" in source for name in names)
    used = set(re.findall(r"inputs\.([\w-]+)", " ".join(step["env"].values())))
    assert used == action["inputs"].keys()
