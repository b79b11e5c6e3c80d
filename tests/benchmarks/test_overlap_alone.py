"""Shared words in place of an engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import overlap_alone

RESPONSES = (
    ("The ferry is red.", True),
    ("The mill grinds flour.", True),
    ("The ferry is red. Nobody remembers its captain.", False),
    ("Bakers sell bread.", False),
)


def test_it_tells_what_the_contexts_do_not_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {
            "question": "What is there?",
            "contexts": ["The mill grinds flour.", "The ferry is red."],
            "response": response,
            "group": str(number),
            "labels": {"adherent": adherent},
        }
        for number, (response, adherent) in enumerate(RESPONSES)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    given = ["overlap_alone", "--data", f"jsonl:{path}", "--split", "all"]
    monkeypatch.setattr("sys.argv", given)
    overlap_alone.main()
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "auroc" in line]
    cells = [cell.strip() for cell in line.split("|")]
    assert "1.000" in cells and cells[cells.index("hallucination_auroc") + 3 :][:2] == ["4", "2"]
