"""The prose of the package: plain technical English, one word for each thing."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted((ROOT / "trivet").rglob("*.py"))
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
# Words that the project once used for something that has a standard name.
PRIVATE = re.compile(
    r"\bstands? (in for|for|beside)\b|\bwho asks\b|what comes of it|\bstrangers?\b|\bthe house\b"
    r"|\bworkshops?\b|\blanes?\b|\bgraphics cards?\b|\bon (a|the) card\b|--engine\b",
    re.IGNORECASE,
)
FRAGMENT = re.compile(r"(Of|What|Who|Whose|How)\b")
ARGUMENT = re.compile(r"^ +\w+: (Of|What|Who|Whose|How)\b", re.MULTILINE)


@pytest.mark.parametrize("file", [*FILES, *PAGES], ids=lambda file: str(file.relative_to(ROOT)))
def test_no_private_word_is_left(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    found = [
        f"{number}: {line.strip()}"
        for number, line in enumerate(text.splitlines(), start=1)
        if PRIVATE.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_docstrings_are_sentences_and_argument_lines_noun_phrases(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = [
        text
        for node in ast.walk(tree)
        if isinstance(node, kinds) and (text := ast.get_docstring(node)) is not None
    ]
    found = [text.splitlines()[0] for text in docstrings if FRAGMENT.match(text)]
    found += [match.group() for text in docstrings for match in ARGUMENT.finditer(text)]
    assert found == []
