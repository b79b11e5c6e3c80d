"""JSON lines of labelled sources: every kind of bad line, files that cannot be read."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from trivet.errors import DataError
from trivet.labelled.source_files import read_json_lines
from trivet.labelled.source_report import RowError
from trivet.logs import decoding

zstd = pytest.importorskip(decoding.ZSTD_MODULE)

LINES = b'\xef\xbb\xbf{"a": 1}\n\n{broken\n[1]\n\xff\xfe\n' + b"[" * 100_000 + b'\n{"b": "\\ud800"}'


def test_good_lines_are_read_and_bad_ones_named(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl.xz"
    file.write_bytes(lzma.compress(LINES))
    rows = dict(read_json_lines(file))
    assert rows[1] == {"a": 1}
    assert rows[7] == {"b": "\ud800"}
    assert {number: str(row) for number, row in rows.items() if isinstance(row, RowError)} == {
        3: "line is not JSON",
        4: "line is not a JSON object",
        5: "line is not UTF-8",
        6: "line is not JSON",
    }


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_a_file_that_is_not_compressed_is_an_error(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows.jsonl{suffix}"
    path.write_bytes(b'{"a": 1}\n')
    with pytest.raises(DataError, match=rf"rows\.jsonl\{suffix} cannot be read past line"):
        list(read_json_lines(path))


def test_several_zstd_frames_are_one_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.zst"
    path.write_bytes(zstd.compress(b'{"a": 1}\n{"a"') + zstd.compress(b": 2}"))
    assert dict(read_json_lines(path)) == {1: {"a": 1}, 2: {"a": 2}}


def test_without_zstd_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.jsonl.zst"
    path.touch()
    monkeypatch.setattr(decoding, "_zstd", None)
    with pytest.raises(DataError, match=r"pip install -c constraints.txt '\.\[files\]'"):
        list(read_json_lines(path))
