"""Rows of spreadsheets."""

from __future__ import annotations

import datetime
import io
from typing import Any

import openpyxl
import pytest

from trivet.data.files.xlsx_rows import read_xlsx
from trivet.errors import DataError


def sheet_of(*rows: tuple[Any, ...], merge: str | None = None) -> io.BytesIO:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    if merge:
        book.active.merge_cells(merge)
    content = io.BytesIO()
    book.save(content)
    content.seek(0)
    return content


def test_rows_have_the_names_of_the_header_and_their_number_in_the_sheet() -> None:
    day = datetime.datetime(2026, 1, 2)
    rows = sheet_of((), ("Question ", "turn", None), ("What?", 3, None), (), (day, None, "note"))
    assert list(read_xlsx(rows)) == [
        (3, [("Question", "What?"), ("turn", 3)]),
        (5, [("Question", day), ("turn", None), ("", "note")]),
    ]
    assert list(read_xlsx(sheet_of())) == []


def test_merged_cells_are_refused_with_their_place_and_a_way_out() -> None:
    merged = sheet_of(("question", "answer"), ("What?", "a"), (None, "b"), merge="A2:A3")
    with pytest.raises(DataError, match=r"merged cells \(A2:A3\).*unmerge them"):
        list(read_xlsx(merged))


def test_what_is_no_spreadsheet_is_refused() -> None:
    with pytest.raises(ValueError, match="not a spreadsheet"):
        list(read_xlsx(io.BytesIO(b"question,answer\n")))
