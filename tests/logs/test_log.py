"""Logs of every format, compressed or not, in one file or many, whole or damaged."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import lzma
import os
import pickle
import sqlite3
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trivet.errors import DataError, ExampleError
from trivet.logs import decoding
from trivet.logs.log import Log, SourceRow

zstd = pytest.importorskip(decoding.ZSTD_MODULE)

ROWS = [
    {"id": "a", "question": "What, where?", "contexts": '["One.", "Two\\n."]', "response": "x"},
    {"id": "b", "question": "Où?", "contexts": "[]", "response": 'said "so"'},
]
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstd.compress,
}


def content_of(suffix: str) -> bytes:
    """Return ``ROWS`` in a format."""
    if suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        sink = io.BytesIO()
        parquet.write_table(pyarrow.Table.from_pylist(ROWS), sink)
        return sink.getvalue()
    if suffix in (".csv", ".tsv"):
        mark = "," if suffix == ".csv" else "\t"
        cells = [[*ROWS[0]]] + [[*row.values()] for row in ROWS]
        quoted = [['"{}"'.format(cell.replace('"', '""')) for cell in line] for line in cells]
        return ("\ufeff" + "".join(mark.join(line) + "\r\n" for line in quoted)).encode()
    if suffix == ".json":
        return json.dumps(ROWS, indent=2).encode()
    return "".join(json.dumps(row) + "\n" for row in ROWS).encode()


def read(log: Log) -> list[dict[str, Any]]:
    return [dict(row.fields) for row in log.rows() if not isinstance(row.fields, ExampleError)]


def pickled(path: Path) -> None:
    path.write_bytes(pickle.dumps(ROWS))


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("log.jsonl", content_of(".jsonl"))


def in_a_database(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as base, base:
        base.execute("create table log (question text)")


def as_feather(path: Path) -> None:
    feather = pytest.importorskip("pyarrow.feather")
    feather.write_feather(feather.Table.from_pylist(ROWS), str(path))


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (pickled, "is a pickle, which may run code, and not text; write its rows as JSON lines"),
        (zipped, "is a ZIP archive, and not text; unpack it"),
        (in_a_database, "is an SQLite database, and not text; sqlite3 -json FILE"),
        (as_feather, "is Arrow or Feather, and not text; pandas.read_feather"),
        (lambda path: path.write_bytes(gzip.compress(b"{}")), "compressed with gzip"),
        (lambda path: path.write_bytes(content_of(".parquet")), "give --format parquet"),
    ],
)
def test_a_file_of_no_text_is_refused_with_the_way_out(
    tmp_path: Path, write: Callable[[Path], object], message: str
) -> None:
    for name in ("log.jsonl", "log.db", "log.csv"):
        write(tmp_path / name)
        with pytest.raises(DataError, match=message):
            list(Log(str(tmp_path / name)).rows())


def test_a_folder_of_arrow_files_is_refused_with_the_way_out(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    folder = tmp_path / "log"
    datasets.Dataset.from_list(ROWS).save_to_disk(folder)
    with pytest.raises(DataError, match=r"load_from_disk\(.*\)\.to_parquet\('log.parquet'\)"):
        Log(str(folder))
    (part,) = folder.glob("*.arrow")
    with pytest.raises(DataError, match="is an Arrow stream"):
        list(Log(str(part)).rows())


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".tsv", ".parquet"])
def test_every_format_gives_the_same_rows(tmp_path: Path, suffix: str, compression: str) -> None:
    path = tmp_path / f"log{suffix}{compression}"
    path.write_bytes(COMPRESS[compression](content_of(suffix)))
    log = Log(str(path))
    assert read(log) == ROWS
    assert log.share_read() == 1.0
    assert log.files == (path,)


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".tsv", ".parquet"])
def test_stdin_is_read_as_it_is_told(suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    stdin = io.TextIOWrapper(Pipe(content_of(suffix)))
    monkeypatch.setattr(sys, "stdin", stdin)
    formats: dict[str, Any] = {".jsonl": None}
    log = Log("-", formats.get(suffix, suffix[1:]))
    assert read(log) == ROWS
    assert (log.share_read(), log.size, log.sha256()) == (None, None, None)


def test_a_folder_is_its_files_in_order(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.jsonl").write_bytes(content_of(".jsonl"))
    (tmp_path / "a.json").write_bytes(content_of(".json"))
    (tmp_path / "sub" / "c.csv.gz").write_bytes(gzip.compress(content_of(".csv")))
    (tmp_path / "_SUCCESS").write_bytes(b"")
    (tmp_path / "notes.txt").write_bytes(b"not read")
    log = Log(str(tmp_path))
    rows = list(log.rows())
    assert [row.number for row in rows] == [1, 2, 3, 4, 5, 6]
    places = ["a.json row 1", "a.json row 2", "b.jsonl line 1", "b.jsonl line 2"]
    places += ["sub/c.csv.gz line 2", "sub/c.csv.gz line 3"]
    assert [row.location for row in rows] == places
    assert "1 files are not read: notes.txt" in caplog.text
    before = log.sha256()
    assert Log(f"{tmp_path}{os.sep}").sha256() == before
    (tmp_path / "a.json").rename(tmp_path / "z.json")
    assert Log(str(tmp_path)).sha256() != before


def test_a_file_hashes_as_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log.jsonl").write_bytes(b"{}\n")
    monkeypatch.chdir(tmp_path)
    expected = "ca3d163bab055381827226140568f3bef7eaac187cebd76878e0b63e9e442356"
    assert Log("log.jsonl").sha256() == Log("./log.jsonl").sha256() == expected
    assert [row.location for row in Log("./log.jsonl").rows()] == ["line 1"]


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no such file: .*nowhere"):
        Log(str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"no file in it ends in .jsonl, .json"):
        Log(str(tmp_path))


def test_the_format_can_be_said(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_bytes(content_of(".csv"))
    assert read(Log(str(tmp_path / "log.txt"), "csv")) == ROWS
    (tmp_path / "log.txt").write_bytes(content_of(".jsonl"))
    assert read(Log(str(tmp_path / "log.txt"))) == ROWS


@pytest.mark.parametrize(
    ("name", "damage", "location"),
    [
        ("log.jsonl.gz", "cut", "line 4"),
        ("log.jsonl.xz", "cut", "line 4"),
        ("log.jsonl.zst", "cut", "line 4"),
        ("log.json", "cut", "row 1"),
        ("log.json", "broken", "the beginning"),
        ("log.parquet", "cut", "the beginning"),
        ("log.parquet.gz", "cut", "the beginning"),
    ],
)
def test_damaged_files_break_off(tmp_path: Path, name: str, damage: str, location: str) -> None:
    path = tmp_path / name
    content = content_of(Path(name.removesuffix(path.suffix)).suffix or path.suffix)
    if path.suffix in (".gz", ".xz", ".zst"):
        content = COMPRESS[path.suffix](content * (2 if "jsonl" in name else 1))
    if damage == "cut":
        content = content[: len(content) - (8 if path.suffix != ".json" else 40)]
    path.write_bytes(content if damage == "cut" else b"{broken")
    rows: list[SourceRow] = []
    with pytest.raises(DataError, match="the input breaks off after") as caught:
        rows.extend(Log(str(path)).rows())
    if path.suffix not in (".xz", ".zst", ".gz"):
        assert f"breaks off after {location}:" in str(caught.value)
