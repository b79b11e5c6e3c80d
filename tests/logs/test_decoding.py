"""Files in other encodings are read as if they were UTF-8."""

from __future__ import annotations

import gzip
import io
import json
import logging
import os
import sys
from pathlib import Path

import pytest

from trivet.errors import DataError, ExampleError
from trivet.logs.decoding import as_utf8
from trivet.logs.log import Log

TEXT = "Où? 水車 🏳️‍🌈\n" * 20_000


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
)
@pytest.mark.parametrize("begins", ["", "[{"])
def test_unicode_is_recognised_by_its_first_bytes(encoding: str, begins: str) -> None:
    text = begins + ("x" if encoding in ("utf-16-le", "utf-16-be") else "") + "{}" + TEXT
    decoded = as_utf8(io.BytesIO(text.encode(encoding))).read().decode("utf-8-sig")
    assert decoded.removeprefix("\ufeff") == text


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


@pytest.mark.parametrize(
    ("encoding", "word"),
    [
        ("cp1252", "“5 €”"),
        ("windows-1251", "Башня была построена в 1790 году на берегу реки."),
        ("cp932", "塔は千七百九十年に川のそばに建てられました。"),
    ],
)
def test_what_is_not_utf_8_is_read_in_its_encoding_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, encoding: str, word: str
) -> None:
    caplog.set_level(logging.INFO, "trivet.logs")
    lines = ["question,contexts,response", *["Hot?,Cone six.,Very."] * 9000, f"Hot?,{word},{word}"]
    log = tmp_path / "log.csv"
    log.write_bytes("\n".join(lines).encode(encoding))
    for path in (log, tmp_path / "log.csv.gz"):
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress(log.read_bytes()))
        *_, row = Log(str(path)).rows()
        assert row.fields == [("question", "Hot?"), ("contexts", word), ("response", word)]
    assert f"log.csv: is not UTF-8; read as {encoding}" in caplog.text
    assert len(caplog.messages) == 2


def test_a_line_of_another_encoding_in_utf_8_fails_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trivet.logs")
    good = json.dumps({"question": "Où? 水車"}, ensure_ascii=False).encode()
    for bad_first in (True, False):
        lines = [good, b'{"question": "O\xf9?"}', good, good]
        log = tmp_path / "log.jsonl"
        log.write_bytes(b"\n".join(lines[bad_first:]))
        *_, last = rows = list(Log(str(log)).rows())
        assert last.fields == [("question", "Où? 水車")]
        errors = [row.line for row in rows if isinstance(row.fields, ExampleError)]
        assert errors == [1 if bad_first else 2]
    log.write_bytes(b'{"question": "O\xf9?"}')
    (row,) = Log(str(log), encoding="utf-8").rows()
    assert isinstance(row.fields, ExampleError) and "is not UTF-8" in str(row.fields)
    assert caplog.messages == []
    (row,) = Log(str(log)).rows()
    assert row.fields == [("question", "Où?")]


def test_binary_content_is_no_text_of_another_encoding(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "trivet.logs")
    content = bytes(range(256)) * 10
    assert as_utf8(io.BytesIO(content)).read() == content
    assert caplog.messages == []


def test_a_pipe_is_read_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    there, here = os.pipe()
    os.write(here, b'{"question": "a"}\n')
    with os.fdopen(there, "rb") as stdin, os.fdopen(here, "wb"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stdin))
        row = next(iter(Log("-").rows()))
        assert row.fields == [("question", "a")]
