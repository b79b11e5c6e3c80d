"""Verdicts as JSON, CSV and Parquet: the same rows in each, and never half a file."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.batch.conftest import GOOD, Judge, WriteLog
from trivet.batch.out_formats import convert
from trivet.report.verdict_files import VerdictFile

ROWS = [
    {**GOOD, "id": "a", "model": "=1+1", "turn": 3},
    {**GOOD, "id": "b", "response": 'It is \x07 new, "they" say.\nOr not; it\'s blue.'},
    {**GOOD, "id": "c", "response": {"a": 3}},
    {**GOOD, "id": "0.5", "response": ""},
]


@pytest.mark.parametrize("ending", [".json", ".csv", ".parquet"])
def test_every_format_holds_the_same_verdicts(
    write_log: WriteLog, judge: Judge, tmp_path: Path, ending: str
) -> None:
    log = write_log(ROWS)
    judge(log, tmp_path / "v.jsonl", texts=True)
    record = judge(log, tmp_path / f"v{ending}", texts=True)
    assert (record.counts.evaluated, record.counts.failed) == (3, 1)
    expected, read = (list(VerdictFile(tmp_path / f"v{suffix}")) for suffix in (".jsonl", ending))
    for row, other in zip(expected, read, strict=True):
        assert (row.row, row.id, row.question, row.contexts) == (
            *(other.row, other.id, other.question, other.contexts),
        )
        ours, theirs = row.verdict or {}, other.verdict or {}
        for name in ("faithfulness", "relevance", "adherent", "windows"):
            mine, wanted = ours.get(name), theirs.get(name)
            assert mine == wanted
        assert ours.get("sentences") == theirs.get("sentences")
        assert (row.error and row.error.code) == (other.error and other.error.code)
        assert ending == ".csv" or row.metadata == other.metadata
    assert sorted(path.name for path in tmp_path.glob("v.*")) == sorted(
        ["v.jsonl", "v.jsonl.run.json", f"v{ending}", f"v{ending}.run.json"]
    )


def test_columns_of_all_rows_are_there_and_lists_are_json(tmp_path: Path) -> None:
    lines, out = tmp_path / "lines", tmp_path / "v.csv"
    records = [{"row": 1, "id": "é", "unsupported": [1]}, {"row": 2, "metadata": {"m": True}}]
    lines.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    convert(lines, out)
    with out.open(encoding="utf-8-sig", newline="") as file:
        assert list(csv.DictReader(file)) == [
            {"row": "1", "id": "é", "unsupported": "[1]", "metadata.m": ""},
            {"row": "2", "id": "", "unsupported": "", "metadata.m": "true"},
        ]


@pytest.mark.parametrize("ending", [".json", ".csv", ".parquet"])
def test_a_file_that_cannot_be_finished_leaves_nothing(tmp_path: Path, ending: str) -> None:
    lines, out = tmp_path / "lines", tmp_path / f"v{ending}"
    lines.mkdir()
    with pytest.raises(OSError):
        convert(lines, out)
    assert list(tmp_path.iterdir()) == [lines]
