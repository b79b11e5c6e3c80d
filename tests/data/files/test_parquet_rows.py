"""Parquet: lists, dates, chosen columns, damaged text, and a missing package."""

from __future__ import annotations

import datetime
import io
import sys

import pytest

from trivet.data.files.parquet_rows import read_parquet
from trivet.data.logs.column_mapping import Columns
from trivet.data.logs.log import SourceRow
from trivet.errors import DataError, ExampleError
from trivet.records import ContextName, RagExample

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


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


def test_without_pyarrow_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"pip install -c constraints.txt '\.\[parquet\]'"):
        list(read_parquet(io.BytesIO(), seekable=True))
