"""The prose of the package: plain technical English, one word for each thing."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.test_structure import parse

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


def test_no_private_word_is_left() -> None:
    faults = [
        f"{file.relative_to(ROOT)}:{number} {line.strip()}"
        for file in (*FILES, *PAGES)
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        if PRIVATE.search(line)
    ]
    assert faults == []


def test_docstrings_are_sentences_and_argument_lines_noun_phrases() -> None:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    faults = []
    for file in FILES:
        for node in ast.walk(parse(file)):
            if isinstance(node, kinds) and (text := ast.get_docstring(node)) is not None:
                wrong = [text.splitlines()[0]] if FRAGMENT.match(text) else []
                wrong += [match.group() for match in ARGUMENT.finditer(text)]
                faults += [f"{file.relative_to(ROOT)}: {first_line}" for first_line in wrong]
    assert faults == []
