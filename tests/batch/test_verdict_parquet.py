"""A verdict file as Parquet: the same rows, typed, written at once."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.batch.conftest import GOOD, Judge, WriteLog
from trivet.batch import run
from trivet.batch.output import RunChangedError
from trivet.batch.run import ResumePolicy
from trivet.errors import DataError

parquet = pytest.importorskip("pyarrow.parquet")

ROWS = [
    {**GOOD, "turn": 1, "score": 1, "model": "a", "mixed": True},
    {**GOOD, "turn": 2, "score": 0.5, "mixed": 7},
    "{broken",
    {**GOOD, "response": "", "contexts": [{"text": "It is red.", "id": "d"}], "turn": 2**70},
]


def test_every_field_has_its_type(write_log: WriteLog, judge: Judge, tmp_path: Path) -> None:
    log = write_log(ROWS)
    judge(log, tmp_path / "v.jsonl", texts=True)
    judge(log, tmp_path / "v.parquet", texts=True)
    lines = [json.loads(line) for line in (tmp_path / "v.jsonl").read_bytes().splitlines()]
    rows = parquet.read_table(tmp_path / "v.parquet").to_pylist()
    for line, row in zip(lines, rows, strict=True):
        line.pop("metadata", None)
        for name, value in row.items():
            if not name.startswith("metadata."):
                assert value == line.get(name), name
    for name, values in {
        "turn": ["1", "2", None, str(2**70)],  # 64 bits cannot hold the last
        "score": [1.0, 0.5, None, None],
        "model": ["a", None, None, None],
        "mixed": ["true", "7", None, None],
    }.items():
        assert [row[f"metadata.{name}"] for row in rows] == values
    assert rows[2]["error"]["code"] == "malformed_line"
    files = sorted(file.name for file in tmp_path.glob("v.parquet*"))
    assert files == ["v.parquet", "v.parquet.run.json"]


def test_a_run_that_stops_before_the_file_is_whole_goes_on(
    write_log: WriteLog, judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toy: Any
) -> None:
    log, out = write_log(range(100)), tmp_path / "v.parquet"

    def stop(lines: Path, out: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(run, "convert", stop)
        judge(log, out)
    assert not out.exists()
    calls = toy.backend.calls
    first = judge(log, out)
    assert toy.backend.calls == calls
    assert parquet.read_table(out)["row"].to_pylist() == list(range(1, 101))
    assert judge(log, out) == first
    write_log(range(101))
    with pytest.raises(RunChangedError, match="the log is not that of the run"):
        judge(log, out, policy=ResumePolicy(force=True))  # its lines are gone
    out.unlink()
    assert judge(log, out).counts.evaluated == 101


def test_lone_surrogates_are_replaced(write_log: WriteLog, judge: Judge, tmp_path: Path) -> None:
    log = write_log([{**GOOD, "response": "It is \ud800 old.", "model": "\udfff"}])
    judge(log, tmp_path / "v.parquet")
    (row,) = parquet.read_table(tmp_path / "v.parquet").to_pylist()
    assert row["sentences"][0]["text"] == "It is \ufffd old."
    assert row["metadata.model"] == "\ufffd"


def test_without_pyarrow_nothing_is_judged(
    write_log: WriteLog, judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(DataError, match=r"pip install -c constraints.txt '\.\[files\]'"):
        judge(write_log([0]), tmp_path / "v.parquet")
    assert not list(tmp_path.glob("v.*"))
