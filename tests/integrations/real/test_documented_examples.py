"""The examples of docs/integrations.md run as they stand there, each where its tool is."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "integrations.md"
NEEDS = {
    "RAGAS": "ragas",
    "DeepEval": "deepeval",
    "LangSmith": "langsmith",
    "LangChain": "langchain_core",
    "LlamaIndex": "llama_index",
    "Haystack": "haystack",
    "MLflow": "mlflow.genai",
    "Phoenix": "phoenix.evals",
    "Inspect": "inspect_ai",
    "TruLens": "trulens.core",
    "Hugging Face evaluate": "evaluate",
    "LettuceDetect": "trivet",
    "Ray Data": "ray",
    "Spark": "pyspark",
}


def examples() -> tuple[str, dict[str, str]]:
    """Return the rows that all begin with, and the code of each section."""
    before, *sections = re.split(r"^## ", DOCUMENT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (rows,) = re.findall(r"^```python\n(.*?)^```", before, flags=re.MULTILINE | re.DOTALL)
    found = {}
    for section in sections:
        title, _, text = section.partition("\n")
        blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
        if blocks:
            (found[title],) = blocks
    return rows, found


def test_every_tool_has_an_example() -> None:
    assert list(examples()[1]) == list(NEEDS)


def is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("tool", NEEDS)
def test_an_example_runs(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    if not is_there(NEEDS[tool]):
        pytest.skip(f"{tool} is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("DEEPEVAL_TELEMETRY_OPT_OUT", "1")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    rows, found = examples()
    exec(compile(rows + found[tool], f"{tool} in {DOCUMENT.name}", "exec"), {})
    assert tool == "DeepEval" or capsys.readouterr().out.strip()
