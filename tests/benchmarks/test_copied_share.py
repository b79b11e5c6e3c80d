"""The table of support by the share of words that the contexts hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import copied_share


def test_rows_are_counted_by_the_share_of_held_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    context = "The old mill at the river was built of oak in 1790 by the abbey."
    right = "The old mill at the river was built of oak in 1790."
    other = "A windmill stood there once, people say, with sails of canvas."
    swapped = "The old abbey at the river was built of oak in 1790 by the mill."
    answers = [(right, True), (swapped, False), (other, False)]
    rows = [
        {"contexts": [context], "response": response, "labels": {"adherent": adherent}}
        for response, adherent in answers
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    copied_share.main(["--data", f"jsonl:{file}", "--split", "all"])
    lines = capsys.readouterr().out.splitlines()
    assert "support of right" in lines[0]
    assert len(lines) == 3  # a share with rows of one kind alone has no AUROC
    assert lines[2].startswith("| all | 1 | 1 | ")
