"""The documentation site builds without warnings, with an API reference from docstrings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import trivet

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("mkdocstrings")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    result = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert "WARNING" not in result.stderr
    reference = (tmp_path / "api" / "index.html").read_text(encoding="utf-8")
    assert "evaluate_many" in reference and "MarkedSpan" in reference


def test_every_page_is_in_the_navigation() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r"[\w/-]+\.md$", nav, flags=re.MULTILINE)
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert sorted(listed) == sorted(pages)
    groups = re.split(r"^  - \w+:$", nav, flags=re.MULTILINE)[1:]
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \w+ \| \[.*", index, flags=re.MULTILINE)
    assert [re.findall(r"[\w/-]+\.md", row) for row in rows] == [
        [page for page in re.findall(r"[\w/-]+\.md", group) if page != "index.md"]
        for group in groups
    ]


def test_the_reference_has_every_public_name() -> None:
    named = re.findall(r"\w+", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"))
    assert {*trivet.__all__} - {*named} == {"__version__"}
