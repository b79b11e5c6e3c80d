"""The scripts and the notebook in examples/ run, on the log beside them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"


def run(script: str) -> str:
    command = [
        sys.executable,
        "-c",
        f"import runpy; runpy.run_path({script!r}, run_name='__main__')",
    ]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8")
    assert result.returncode == 0, result.stderr
    return result.stdout


def output_beside(script: str) -> str:
    """Return the output that the docstring of a script shows last, indented."""
    doc = ast.get_docstring(ast.parse((ROOT / script).read_text(encoding="utf-8"))) or ""
    return dedent(doc.rpartition("prints:\n\n")[2])


@pytest.mark.parametrize("script", ["examples/one_answer.py", "examples/evaluate_a_log.py"])
def test_a_script_prints_what_its_docstring_shows(script: str) -> None:
    assert run(script).rstrip().splitlines() == output_beside(script).rstrip().splitlines()


def test_the_notebook_runs_and_shows_the_marked_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = nbformat.read(EXAMPLES / "first_verdict.ipynb", as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs for cell in cells), "clear the outputs before you commit"
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    html = cells[0].outputs[0].data["text/html"]
    for part in ("tv-sentence tv-supported", "tv-sentence tv-weak", "tv-sentence tv-open"):
        assert part in html
    assert '<mark class="tv-unsupported">25 minutes</mark>: not in the contexts' in html
    assert "<script" not in html
    # A kernel sends what is printed in as many pieces as it likes.
    printed = ["".join(output.text for output in cell.outputs) for cell in cells[1:3]]
    assert "adherent: False" in printed[0]
    assert printed[1] == "right True\nwrong False\n"
