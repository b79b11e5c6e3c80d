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


def test_one_file_becomes_a_page_and_two_are_compared(verdicts: Path, tmp_path: Path) -> None:
    page, other = tmp_path / "page.html", tmp_path / "other.jsonl"
    other.write_bytes(verdicts.read_bytes())

    def run(*words: str | Path) -> str:
        command = ["report", str(verdicts), *map(str, words), "--out", str(page)]
        result = CliRunner().invoke(app, command, catch_exceptions=False)
        assert (result.exit_code, result.output.strip()) == (0, str(page))
        return page.read_text(encoding="utf-8")

    text = run("--shown", "3", "--by", "model")
    assert "Verdicts: verdicts.jsonl" in text and text.count("<article") == 3
    assert "<h2>By model</h2>" in text
    assert "4 of 8 answers unsupported" in text
    text = run(other)
    assert "verdicts.jsonl and other.jsonl compared" in text and "+0.000" in text
