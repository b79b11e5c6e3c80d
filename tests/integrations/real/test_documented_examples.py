"""The examples of docs/integrations.md run, each if its tool is installed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = (DOCS / "integrations.md").read_text(encoding="utf-8")
TOOLS = {  # title of the section and module that it needs
    "ragas": ("RAGAS", "ragas"),
    "deepeval": ("DeepEval", "deepeval"),
    "langsmith": ("LangSmith", "langsmith"),
    "langchain": ("LangChain", "langchain_core"),
    "llama_index": ("LlamaIndex", "llama_index"),
    "haystack": ("Haystack", "haystack"),
    "mlflow": ("MLflow", "mlflow.genai"),
    "phoenix": ("Phoenix", "phoenix.evals"),
    "ray": ("Ray Data", "ray"),
}


def examples() -> tuple[str, dict[str, str]]:
    """Return the code that defines the rows, and the code of each section by its title."""
    before, *sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (rows,) = re.findall(r"^```python\n(.*?)^```", before, flags=re.MULTILINE | re.DOTALL)
    by_page = {}
    for section in sections:
        title, _, text = section.partition("\n")
        blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
        if blocks:
            (by_page[title],) = blocks
    return rows, by_page


def test_every_tool_has_an_example() -> None:
    assert list(examples()[1]) == [title for title, _ in TOOLS.values()]


@pytest.mark.parametrize("tool", TOOLS)
def test_an_example_runs(tool: str, capsys: Any) -> None:
    title, module = TOOLS[tool]
    pytest.importorskip(module)
    rows, code = examples()
    exec(compile(rows + code[title], f"{title} in docs", "exec"), {})
    assert tool == "deepeval" or capsys.readouterr().out.strip()
