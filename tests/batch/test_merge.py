"""Merged shards are the bytes of one run; unsuitable files are refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.batch.conftest import Judge, WriteLog
from trivet.batch.merge import merge
from trivet.batch.settings import Shard, parse_shard
from trivet.errors import DataError
from trivet.report.run_record import read_record


@pytest.fixture
def shards(write_log: WriteLog, judge: Judge, tmp_path: Path) -> list[Path]:
    """Judge 400 rows, seven blocks, in three shards; one row is broken."""
    rows: list[Any] = list(range(400))
    rows[99] = "{broken"
    log = write_log(rows)
    outs = [tmp_path / f"part-{number}.jsonl" for number in (3, 1, 2)]
    for out in outs:
        judge(log, out, shard=Shard(int(out.stem[-1]), 3))
    judge(log, tmp_path / "whole.jsonl")
    return outs


def test_merged_shards_are_what_one_run_writes(shards: list[Path], tmp_path: Path) -> None:
    out, whole = tmp_path / "merged.jsonl", tmp_path / "whole.jsonl"
    record, expected = merge(shards, out), read_record(whole)
    assert out.read_bytes() == whole.read_bytes()
    assert expected is not None
    assert record.counts.failures == expected.counts.failures == {"malformed_line": 1}
    assert (record.counts.evaluated, record.counts.counts) == (399, expected.counts.counts)
    assert record.progress == expected.progress
    assert record.settings == expected.settings
    assert read_record(out) == record
    assert not list(tmp_path.glob("*.lines"))
    with pytest.raises(DataError, match=r"merged.jsonl: exists already"):
        merge(shards, out)


def test_more_shards_than_blocks(write_log: WriteLog, judge: Judge, tmp_path: Path) -> None:
    log = write_log(range(70))
    outs = [tmp_path / f"part-{number}.jsonl" for number in (1, 2, 3)]
    for number, out in enumerate(outs, start=1):
        judge(log, out, shard=Shard(number, 3))
    assert outs[2].read_bytes() == b""
    assert merge(outs, tmp_path / "merged.jsonl").counts.evaluated == 70


def test_wrong_parts(shards: list[Path], judge: Judge, write_log: WriteLog, tmp_path: Path) -> None:
    out = tmp_path / "merged.jsonl"
    other = tmp_path / "other.jsonl"
    judge(write_log(range(9), "other-log.jsonl"), other, shard=Shard(1, 3))
    for given, message in (
        (shards[:2], "the files are the shards 3/3, 1/3; give each from 1/3"),
        ([shards[0], shards[0], shards[2]], "the shards 3/3, 3/3, 2/3"),
        (
            [shards[0], other, shards[2]],
            r"other.jsonl is of another run than .*: SHA-256 of the input",
        ),
        ([tmp_path / "nothing.jsonl"], r"its record nothing.jsonl.run.json is missing"),
        ([tmp_path / "part.parquet"], "shards are merged from JSON lines"),
    ):
        with pytest.raises(DataError, match=message):
            merge(given, out)
    assert not out.exists()


def test_a_shard_that_was_tampered_with_is_refused(shards: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "merged.jsonl"
    content = shards[0].read_bytes()
    shards[0].write_bytes(content[:-1])
    with pytest.raises(DataError, match=r"does not have the [0-9]+ bytes that its run wrote"):
        merge(shards, out)
    for changed, message in (
        (b'{"row": 128', "row 128 is in the files twice"),
        (b'{"row": 131', "row 129 is in none of the files"),
        (b'["row": 129', "a line does not begin with its row"),
    ):
        shards[0].write_bytes(content.replace(b'{"row": 129', changed))
        with pytest.raises(DataError, match=message):
            merge(shards, out)
    assert not out.exists()
    assert not list(tmp_path.glob("*.lines"))


@pytest.mark.parametrize("text", ["2", "0/3", "4/3", "a/b", "1/0", "-1/3", "1/3/5"])
def test_a_shard_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="shard"):
        parse_shard(text)
