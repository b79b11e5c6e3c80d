"""CSV files with quotes, quotes that are never closed, and missing cells."""

from __future__ import annotations

import io
from typing import Any

import pytest

from trivet.data.files.csv_rows import read_csv
from trivet.errors import ExampleError


def read(content: str | bytes, delimiter: str | None = None) -> list[tuple[int | None, Any]]:
    raw = content if isinstance(content, bytes) else content.encode()
    return [
        (line, str(fields) if isinstance(fields, ExampleError) else dict(fields))
        for line, fields in read_csv(io.BytesIO(raw), delimiter)
    ]


@pytest.mark.parametrize("mark", list(",;\t|"))
def test_the_header_says_what_stands_between_cells(mark: str) -> None:
    assert read(f"a{mark}b \n1{mark}2\n") == [(2, {"a": "1", "b": "2"})]


def test_a_cell_may_hold_lines_and_the_line_of_a_row_is_its_first() -> None:
    content = 'a,b\n"one\ntwo",2\n\n3,4\n'
    assert read(content) == [(2, {"a": "one\ntwo", "b": "2"}), (5, {"a": "3", "b": "4"})]


def test_a_bad_record_fails_in_its_place() -> None:
    found = read('a,b\n1\n1,2,3\n"x"y,2\n5,6\n')
    assert found[0] == (2, "has 1 cells, but the header names 2")
    assert found[1] == (3, "has 3 cells, but the header names 2")
    assert found[2][1].startswith("is not CSV (")
    assert found[3] == (5, {"a": "5", "b": "6"})
    ((line, error),) = read('a,b\n1,"2\n3,4\n5,6\n')  # a quote that is never closed
    assert line == 2 and "unexpected end of data" in error


def test_what_is_not_utf8_fails_in_its_place_and_a_long_cell_does_not() -> None:
    found = read(b"a,b\n\xff,2\n3," + b"x" * 300_000 + b"\n")
    assert found[0] == (2, "is not UTF-8; name its encoding with --encoding, such as cp1252")
    assert len(found[1][1]["b"]) == 300_000


def test_an_empty_file_has_no_rows() -> None:
    assert read("") == read("a,b\n") == []
