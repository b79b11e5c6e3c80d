"""Files in other encodings are read as if they were UTF-8."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest

from trivet.data.files.recoding import as_utf8
from trivet.data.logs.log import Log
from trivet.errors import DataError

TEXT = "Où? 水車 🏳️‍🌈\n" * 20_000


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
)
@pytest.mark.parametrize("begins", ["", "[{"])
def test_unicode_is_recognised_by_its_first_bytes(encoding: str, begins: str) -> None:
    text = begins + ("x" if encoding in ("utf-16-le", "utf-16-be") else "") + "{}" + TEXT
    found = as_utf8(io.BytesIO(text.encode(encoding))).read().decode("utf-8-sig")
    assert found.removeprefix("\ufeff") == text


def test_a_named_encoding_is_used_also_within_a_compressed_file(tmp_path: Path) -> None:
    log = tmp_path / "log.csv.gz"
    log.write_bytes(gzip.compress("question;Größe\nWas?;5 €\n".encode("cp1252")))
    (row,) = Log(str(log), encoding="cp1252").rows()
    assert row.fields == [("question", "Was?"), ("Größe", "5 €")]
    log = tmp_path / "log.jsonl"
    log.write_bytes(json.dumps({"question": "Où?"}, ensure_ascii=False).encode("utf-16"))
    (row,) = Log(str(log)).rows()
    assert row.fields == [("question", "Où?")]


def test_content_of_another_encoding_breaks_off_there(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(b"\xff\xfe{\x00}")
    with pytest.raises(DataError, match="breaks off after the beginning: 'utf-16"):
        list(Log(str(log)).rows())
