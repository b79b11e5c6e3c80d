"""`trivet report`: pages of one and of two files, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.report.rows import make_row
from trivet.__main__ import app


@pytest.fixture
def verdicts(tmp_path: Path) -> Path:
    path = tmp_path / "verdicts.jsonl"
    rows = [make_row(n, n / 10, id_=f"q{n}", metadata={"model": f"m{n % 2}"}) for n in range(1, 9)]
    lines = [
        json.dumps({"row": row.row, **(row.verdict or {}), "metadata": dict(row.metadata)})
        for row in rows
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def run(*words: str | Path) -> str:
    result = CliRunner().invoke(app, ["report", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_one_file_becomes_a_page(verdicts: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run(verdicts, "--out", page, "--shown", "3", "--by", "model").strip() == str(page)
    text = page.read_text(encoding="utf-8")
    assert "Verdicts: verdicts.jsonl" in text and text.count("<article") == 3
    assert "<h2>By model</h2>" in text
    assert "4 of 8 answers unsupported" in text
    run(verdicts, "--out", page, "--threshold", "0.35")
    assert "3 of 8 answers unsupported" in page.read_text(encoding="utf-8")


def test_two_files_are_compared(verdicts: Path, tmp_path: Path) -> None:
    other, page = tmp_path / "other.jsonl", tmp_path / "page.html"
    other.write_bytes(verdicts.read_bytes())
    run(verdicts, other, "--out", page)
    text = page.read_text(encoding="utf-8")
    assert "verdicts.jsonl and other.jsonl compared" in text and "+0.000" in text
