"""The routes through the package stay short."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def test_an_evaluation_and_a_request_cross_few_functions_and_files() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "benchmarks.call_routes"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    ).stdout
    found = {
        title: (int(functions), int(files))
        for title, functions, files in re.findall(r"(.*): (\d+) functions in (\d+) files", printed)
    }
    assert found.keys() == {"Evaluator.evaluate", "one request"}
    most = {"Evaluator.evaluate": (60, 12), "one request": (140, 25)}
    assert all(found[name] <= most[name] and found[name][1] <= most[name][1] for name in most)
