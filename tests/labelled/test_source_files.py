"""JSON lines of labelled sources: every compression, every kind of bad line, damaged files."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from trivet.data.files import decoding
from trivet.errors import DataError
from trivet.labelled.source_files import read_json_lines
from trivet.labelled.source_report import RowError

zstd = pytest.importorskip(decoding.ZSTD_MODULE)

LINES = b'\xef\xbb\xbf{"a": 1}\n\n{broken\n[1]\n\xff\xfe\n' + b"[" * 100_000 + b'\n{"b": "\\ud800"}'


def write(path: Path, content: bytes) -> Path:
    compress = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstd.compress}
    path.write_bytes(compress.get(path.suffix, bytes)(content))
    return path


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_good_lines_are_read_and_bad_ones_named(tmp_path: Path, suffix: str) -> None:
    rows = dict(read_json_lines(write(tmp_path / f"rows.jsonl{suffix}", LINES)))
    assert rows[1] == {"a": 1}
    assert rows[7] == {"b": "\ud800"}
    assert {number: str(row) for number, row in rows.items() if isinstance(row, RowError)} == {
        3: "line is not JSON",
        4: "line is not a JSON object",
        5: "line is not UTF-8",
        6: "line is not JSON",
    }


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
@pytest.mark.parametrize("damage", ["truncated", "not compressed"])
def test_a_damaged_file_is_an_error(tmp_path: Path, suffix: str, damage: str) -> None:
    path = write(tmp_path / f"rows.jsonl{suffix}", b'{"a": 1}\n' * 5000)
    path.write_bytes(path.read_bytes()[:-10] if damage == "truncated" else b'{"a": 1}\n')
    with pytest.raises(DataError, match=rf"rows\.jsonl\{suffix} cannot be read past line"):
        list(read_json_lines(path))


def test_several_zstd_frames_are_one_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.zst"
    path.write_bytes(zstd.compress(b'{"a": 1}\n{"a"') + zstd.compress(b": 2}"))
    assert dict(read_json_lines(path)) == {1: {"a": 1}, 2: {"a": 2}}


def test_without_zstd_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "rows.jsonl.zst", b"{}")
    monkeypatch.setattr(decoding, "_zstd", None)
    with pytest.raises(DataError, match=r"pip install -c constraints.txt '\.\[zstd\]'"):
        list(read_json_lines(path))
