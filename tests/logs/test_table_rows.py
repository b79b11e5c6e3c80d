"""CSV with quotes that are never closed, spreadsheets with merged cells, Parquet with odd text."""

from __future__ import annotations

import datetime
import io
import tracemalloc
from collections.abc import Mapping
from typing import Any

import pytest

from trivet.errors import DataError, ExampleError
from trivet.logs.column_mapping import Columns
from trivet.logs.log import SourceRow
from trivet.logs.rows import read_examples
from trivet.logs.table_rows import read_csv, read_parquet, read_xlsx
from trivet.records import ContextName, RagExample

openpyxl = pytest.importorskip("openpyxl")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


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
    rows = read('a,b\n1\n1,2,3\n"x"y,2\n5,6\n')
    assert rows[0] == (2, "has 1 cells, but the header names 2")
    assert rows[1] == (3, "has 3 cells, but the header names 2")
    assert rows[2][1].startswith("is not CSV (")
    assert rows[3] == (5, {"a": "5", "b": "6"})
    ((line, error),) = read('a,b\n1,"2\n3,4\n5,6\n')  # a quote that is never closed
    assert line == 2 and "unexpected end of data" in error


def test_what_is_not_utf8_fails_in_its_place_and_a_long_cell_does_not() -> None:
    rows = read(b"a,b\n\xff,2\n3," + b"x" * 300_000 + b"\n")
    assert rows[0] == (2, "is not UTF-8; name its encoding with --encoding, such as cp1252")
    assert len(rows[1][1]["b"]) == 300_000


def sheet_of(
    *rows: tuple[Any, ...], merge: str | None = None, formats: Mapping[str, str] = {}
) -> io.BytesIO:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for cell, shown in formats.items():
        book.active[cell].number_format = shown
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


def test_numbers_shares_and_dates_are_read_as_the_sheet_shows_them() -> None:
    day, hour = datetime.datetime(2026, 1, 2), datetime.datetime(2026, 1, 2, 3, 4)
    cells = [(1790, day, hour), (0.5, 12.0, 1e22), ("How much?", 0.12, 0.125)]
    sheet = sheet_of(
        ("question", "contexts", "response"), *cells, formats={"B4": "0%", "C4": "0.0%"}
    )
    rows = [SourceRow(1, "row 1", None, fields) for _, fields in read_xlsx(sheet)]
    assert [Columns().read(row).example for row in rows] == [
        RagExample("1790", ("2026-01-02",), "2026-01-02 03:04:00", id="row-1"),
        RagExample("0.5", ("12",), "1e+22", id="row-1"),
        RagExample("How much?", ("12%",), "12.5%", id="row-1"),
    ]


def test_numbers_and_dates_in_a_data_frame_are_read_as_text() -> None:
    pandas = pytest.importorskip("pandas")
    day = pandas.Timestamp("2026-01-02")
    frame = pandas.DataFrame({"question": [1790, 2], "contexts": day, "response": [42, None]})
    first, second = read_examples(frame)
    assert first == RagExample("1790", ("2026-01-02",), "42")
    assert second == RagExample("2", ("2026-01-02",), "")


def test_a_sheet_of_many_empty_rows_is_read_as_a_stream() -> None:
    sheet = sheet_of(("question", "answer"), ("What?", "a"), formats={"D100000": "0%"})
    tracemalloc.start()
    assert list(read_xlsx(sheet)) == [(2, [("question", "What?"), ("answer", "a")])]
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()


def test_merged_cells_are_refused_with_their_place_and_a_way_out() -> None:
    merged = sheet_of(("question", "answer"), ("What?", "a"), (None, "b"), merge="A2:A3")
    with pytest.raises(DataError, match=r"merged cells \(A2:A3\).*unmerge them"):
        list(read_xlsx(merged))


def written(table: object) -> io.BytesIO:
    sink = io.BytesIO()
    parquet.write_table(table, sink)
    sink.seek(0)
    return sink


def test_nested_contexts_and_dates_are_read_as_from_json() -> None:
    row = {
        "id": 3,
        "question": "What?",
        "contexts": [{"text": "The mill.", "id": "m"}, {"text": "The boat.", "id": None}],
        "response": None,
        "at": datetime.datetime(2026, 1, 2, 3, 4),
    }
    file = written(pyarrow.Table.from_pylist([row] * 130))
    reads = list(read_parquet(file, seekable=True))
    assert len(reads) == 130
    read = Columns().read(SourceRow(1, "row 1", None, reads[129][1]))
    names = ContextName("m"), ContextName(None)
    contexts = "The mill.", "The boat."
    assert read.example == RagExample("What?", contexts, "", id="3", context_names=names)
    assert read.context_ids == ("m", None)
    assert read.metadata == {"at": "2026-01-02T03:04:00"}


def test_a_cell_that_is_not_utf8_fails_its_row_alone() -> None:
    texts = pyarrow.array([b"good", b"\xff\xfe", b"fine"], pyarrow.binary()).view(pyarrow.string())
    table = pyarrow.table({"a": texts, "b": [1, 2, 3]})
    first, bad, last = (fields for _, fields in read_parquet(written(table), seekable=False))
    assert first == [("a", "good"), ("b", 1)]
    assert isinstance(bad, ExampleError)
    assert (bad.code, str(bad)[:12]) == ("malformed_line", "is not UTF-8")
    assert last == [("a", "fine"), ("b", 3)]


def test_only_the_chosen_columns_are_read() -> None:
    table = pyarrow.table({"a": [1], "b": [2]})
    for columns, names in ((["b", "nowhere"], ["b"]), (["nowhere"], ["a", "b"])):
        ((_, row),) = read_parquet(written(table), columns=columns)
        assert not isinstance(row, ExampleError)
        assert list(dict(row)) == names
