"""The benchmark of scattered evidence finds the rows by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import scattered_evidence

FILLER = " ".join(f"The town has {number} wells and a gate." for number in range(70))
CONTEXTS = ["The mill grinds flour. " + FILLER, "The ferry is red."]
RESPONSE = "The ferry is red. The mill grinds flour."


def row(number: int, scattered: bool) -> dict[str, object]:
    second = [[0, 0, 22], [1, 0, 17]] if scattered else [[0, 0, 22]]
    evidence = [{"response": [0, 17], "contexts": [[1, 0, 17]]}]
    evidence.append({"response": [18, len(RESPONSE)], "contexts": second})
    return {
        "question": "What is there?",
        "contexts": CONTEXTS,
        "response": RESPONSE,
        "group": str(number),
        "labels": {"unsupported": [], "evidence": evidence},
    }


def test_rows_are_chosen_by_evidence_that_no_window_shows_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.jsonl"
    lines = [json.dumps(row(number, scattered=number < 2)) for number in range(3)]
    path.write_text("\n".join(lines), encoding="utf-8")
    flags = ["--ragbench", f"jsonl:{path}", "--split", "all", "--sizes", "512"]
    scattered_evidence.main(flags)
    printed = capsys.readouterr().out
    assert "2 of 3 rows have scattered evidence (0 hallucinated)" in printed
    cells = [line.strip("| ").split(" | ") for line in printed.splitlines() if "| 512 |" in line]
    without, with_ = cells
    # Two ordinary windows a row, and one evidence window; two scattered sentences in all.
    assert (without[2], with_[2]) == ("4", "6")
    assert without[-1].endswith("of 2") and without[4] == "one class"
