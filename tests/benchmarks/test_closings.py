"""The closings of the benchmark: counts, none of them trained on, the table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import closings
from trivet.data.labelled.augmentation.closings import remarks
from trivet.records import RagExample


def test_there_are_three_kinds_and_none_is_trained_on() -> None:
    kinds = closings.read_closings()
    assert list(kinds) == ["remark", "claim", "statement"]
    assert [len(texts) for texts in kinds.values()] == [43, 40, 40]
    every = [text for texts in kinds.values() for text in texts]
    assert len(set(every)) == len(every)
    assert not set(every) & set(remarks())
    asked = [sum(text.endswith("?") for text in texts) for texts in kinds.values()]
    assert asked == [23, 20, 0]  # a question mark alone tells nothing


def test_a_closing_follows_the_response() -> None:
    example = RagExample("Who?", ("Anna built it.",), "Anna did. \n")
    assert closings.with_closing(example, "Any questions?").response == "Anna did. Any questions?"


def test_the_table_has_a_row_for_each_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [f"Anna Berg built mill {number} in 179{number}." for number in range(6)]
    lines = [
        json.dumps(
            {
                "question": f"Who built mill {number}?",
                "contexts": [text],
                "response": text,
                "labels": {"adherent": True},
                "group": str(number),
            }
        )
        for number, text in enumerate(made)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    closings.main(["--data", f"jsonl:{tmp_path / 'rows.jsonl'}", "--split", "all"])
    table = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in table] == [
        *("| closing", "| ---", "| remark", "| claim", "| statement")
    ]
    assert [line.split(" | ")[1] for line in table[2:]] == ["6", "6", "6"]
    separations = [line.split(" | ")[3] for line in table]
    assert separations[0] == "AUROC against remarks |" and separations[2] == " |"
    assert all("[" in separation for separation in separations[3:])
