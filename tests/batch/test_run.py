"""A run into a file: its content after every kind of interruption."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.batch.conftest import GOOD, Judge, WriteLog
from trivet.batch import blocks, resumable_jsonl
from trivet.batch.output import Output, RunChangedError
from trivet.batch.resumable_jsonl import replace_file
from trivet.batch.run import ResumePolicy
from trivet.errors import DataError
from trivet.logs.log import Log
from trivet.report.run_record import record_path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_each_row_has_a_numbered_verdict(write_log: WriteLog, judge: Judge, tmp_path: Path) -> None:
    contexts = [{"text": "The mill is old.", "id": 7}, "It is red."]
    first = {**GOOD, "id": "a", "model": "m-1", "contexts": contexts, "long": "x" * 201}
    log, out = write_log([first, "", "{broken", {**GOOD, "turn": 3}]), tmp_path / "v.jsonl"
    record = judge(log, out)
    whole, broken, two = read(out)
    assert (whole["row"], whole["id"], whole["metadata"]) == (1, "a", {"model": "m-1"})
    assert whole["context_ids"] == ["7", None]
    assert len(whole["contexts"]) == 2
    assert "texts" not in whole
    assert (broken["row"], broken["error"]["code"]) == (2, "malformed_line")
    assert broken["error"]["line"] == 3
    assert broken["error"]["message"].startswith("line 3: ")
    assert (two["row"], two["id"], two["metadata"]) == (3, "line-4", {"turn": 3})
    assert "context_ids" not in two
    assert (record.counts.evaluated, record.counts.failed, record.finished) == (2, 1, True)
    assert record.counts.counts["faithfulness"] == 2
    written = json.loads(record_path(out).read_bytes())
    assert written["input"]["path"] == str(log)
    assert written["progress"] == {"rows": 3, "blocks": 1, "bytes": out.stat().st_size}
    assert written["counts"]["scores"]["relevance"]["n"] == 2


def test_fields_and_texts_are_chosen(write_log: WriteLog, judge: Judge, tmp_path: Path) -> None:
    log = write_log([{**GOOD, "model": "m", "tags": ["a"]}, {**GOOD, "contexts": {}}])
    out = tmp_path / "v.jsonl"
    judge(log, out, fields=("id", "faithfulness"))
    keys = [["row", "id", "faithfulness"], ["row", "id", "error"]]
    assert [list(line) for line in read(out)] == keys
    judge(log, out, policy=ResumePolicy(restart=True), texts=True, metadata=("tags", "none"))
    judged, failed = read(out)
    assert judged["texts"] == GOOD
    assert judged["metadata"] == {"tags": '["a"]'}
    assert "texts" not in failed
    with pytest.raises(DataError, match=r"no field score in a verdict; there are id, faithfulness"):
        judge(log, out, fields=("score",))


class PowerCut(BaseException):
    """Nothing after it runs."""


def cut_power(monkeypatch: pytest.MonkeyPatch, random_: random.Random) -> None:
    """Let a run stop at some moment: within or after a write, before or after its record."""
    left = random_.randrange(12)
    append = Output.append

    def moment() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    def append_and_stop(self: Output, content: bytes) -> None:
        if moment():
            append(self, content[: random_.randrange(len(content))])
            raise PowerCut
        append(self, content)

    def write_and_stop(path: Path, content: str) -> None:
        if moment():
            raise PowerCut
        replace_file(path, content)

    monkeypatch.setattr(Output, "append", append_and_stop)
    monkeypatch.setattr(resumable_jsonl, "replace_file", write_and_stop)


@pytest.mark.parametrize("seed", range(3))
def test_a_run_that_was_stopped_writes_the_bytes_of_one_that_was_not(
    write_log: WriteLog, judge: Judge, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "_CALLS", 1)
    rows: list[Any] = list(range(700))
    rows[97], rows[600] = "{broken", {**GOOD, "contexts": ["The mill is old. " * 300]}
    log, whole, out = write_log(rows), tmp_path / "whole.jsonl", tmp_path / "v.jsonl"
    expected = judge(log, whole)
    random_, stops = random.Random(seed), 0
    for _ in range(100):
        with pytest.MonkeyPatch.context() as patch:
            cut_power(patch, random_)
            try:
                record = judge(log, out)
                break
            except PowerCut:
                stops += 1
    assert stops > 1
    assert record.finished
    assert out.read_bytes() == whole.read_bytes()
    assert record.counts == expected.counts
    assert [line["row"] for line in read(out)] == list(range(1, 701))


def test_a_resumed_run_keeps_the_blocks_it_began_with(
    write_log: WriteLog, judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = {**GOOD, "contexts": ["The mill is old. " * 300]}
    log, whole, out = write_log([long] * 20), tmp_path / "whole.jsonl", tmp_path / "v.jsonl"
    judge(log, whole)
    with monkeypatch.context() as patch, pytest.raises(PowerCut):
        cut_power(patch, random.Random(0))
        judge(log, out)
    monkeypatch.setattr(blocks, "_CALLS", 1)
    judge(log, out)
    assert out.read_bytes() == whole.read_bytes()


def test_no_run_happens_twice(write_log: WriteLog, judge: Judge, tmp_path: Path, toy: Any) -> None:
    log, out = write_log(range(70)), tmp_path / "v.jsonl"
    first = judge(log, out)
    calls = toy.backend.calls
    assert judge(log, out) == first
    assert toy.backend.calls == calls
    out.unlink()  # whoever removes the output wants it anew
    assert judge(log, out).counts == first.counts
    assert len(read(out)) == 70


def test_changes_are_refused_unless_told(write_log: WriteLog, judge: Judge, tmp_path: Path) -> None:
    log, out = write_log(range(130)), tmp_path / "v.jsonl"
    judge(log, out)
    before = out.read_bytes()
    write_log(range(200))
    grown = r"the log is not that of the run .*--restart, .*--force"
    with pytest.raises(RunChangedError, match=grown):
        judge(log, out)
    with pytest.raises(RunChangedError, match=r"--texts was False, is True"):
        judge(log, out, texts=True)
    assert out.read_bytes() == before
    record = judge(log, out, policy=ResumePolicy(force=True))
    assert out.read_bytes().startswith(before)
    assert [line["row"] for line in read(out)] == list(range(1, 201))
    assert record.counts.evaluated == 200
    assert len(record.changed) == 1
    write_log(range(3))
    with pytest.raises(RunChangedError, match=r"not that of the run \(\d+ bytes then"):
        judge(log, out)
    with pytest.raises(RunChangedError, match="has 3 rows, but 200 of them were evaluated"):
        judge(log, out, policy=ResumePolicy(force=True))
    judge(log, out, policy=ResumePolicy(restart=True))
    assert len(read(out)) == 3


def test_foreign_outputs_are_left_alone(write_log: WriteLog, judge: Judge, tmp_path: Path) -> None:
    log, out = write_log(range(3)), tmp_path / "v.jsonl"
    out.write_text("mine", encoding="utf-8")
    with pytest.raises(RunChangedError, match=r"without the record of its run \(v.jsonl.run"):
        judge(log, out)
    assert out.read_text(encoding="utf-8") == "mine"
    out.unlink()
    judge(log, out)
    whole = out.read_bytes()
    for changed in (whole + b"more\n", whole[:-1]):
        out.write_bytes(changed)
        with pytest.raises(RunChangedError, match=r"has [0-9]+ bytes, but [0-9]+ were written"):
            judge(log, out)
        assert out.read_bytes() == changed
    for content, message in (
        ("{", r"cannot be read .* start over with --restart"),
        ('{"schema_version": 3}', "not a record of a run"),
    ):
        record_path(out).write_text(content, encoding="utf-8")
        with pytest.raises(DataError, match=message):
            judge(log, out)


def test_rows_before_the_place_where_a_log_breaks_off_are_judged(
    judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_log: WriteLog
) -> None:
    log, out = write_log(range(100)), tmp_path / "v.jsonl"
    rows = Log.rows

    def broken(self: Log) -> Iterator[Any]:
        for row in rows(self):
            if row.number > 70:
                raise DataError("the input breaks off after line 70")
            yield row

    monkeypatch.setattr(Log, "rows", broken)
    with pytest.raises(DataError, match="breaks off after line 70"):
        judge(log, out)
    assert len(read(out)) == 70
    assert not json.loads(record_path(out).read_bytes())["finished"]
