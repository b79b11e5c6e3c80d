"""JSON lines and documents: the parsers agree, and neither line nor row fills the memory."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.examples import JSON_VALUES
from trivet.errors import ExampleError
from trivet.logs import json_rows
from trivet.logs.json_rows import (
    parse_line,
    parse_plain_line,
    read_bounded,
    read_document,
    read_lines,
)


@given(st.dictionaries(st.text(), JSON_VALUES, max_size=6), st.booleans())
def test_both_read_the_same(record: dict[str, Any], ascii_only: bool) -> None:
    line = json.dumps(record, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert dict(parse_plain_line(line)) == dict(parse_line(line)) == record


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'{"a": "\\ud800"}', "\ud800"),
        (b'\xef\xbb\xbf{"a": 1}', 1),
        (b'{"a": 1, "a": 2}', 2),
        (b'{"a": 123456789012345678901234567890}', 123456789012345678901234567890),
    ],
)
def test_what_is_odd_is_read_as_well(line: bytes, value: object) -> None:
    assert dict(parse_plain_line(line)) == {"a": value}


@pytest.mark.parametrize("line", [b"{", b"[1]", b"1", b'{"a": "\xff"}', b"[" * 100_000])
def test_what_is_no_object_is_refused_alike(line: bytes) -> None:
    messages = []
    for parse in (parse_line, parse_plain_line):
        with pytest.raises(ExampleError) as caught:
            parse(line)
        messages.append((caught.value.code, str(caught.value)))
    assert messages[0] == messages[1]


def test_a_line_that_is_too_long_is_an_error_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_rows, "read_bounded", lambda file: read_bounded(file, 20))
    content = b'{"a": 1}\n{"a": "' + b"x" * 3_000_000 + b'"}\n\n{"b": 2}'
    (first_line, first), (two, error), (four, last) = read_lines(io.BytesIO(content))
    assert (first_line, two, four) == (1, 2, 4)
    assert (first, last) == ([("a", 1)], [("b", 2)])
    assert isinstance(error, ExampleError)
    assert list(read_bounded(io.BytesIO(b"12345\n123456\n"), 6)) == [b"12345\n", None]


OBJECTS = st.lists(st.dictionaries(st.text(max_size=5), JSON_VALUES, max_size=4), max_size=6)


def objects(reads: Iterator[Any]) -> list[Any]:
    return [None if isinstance(fields, ExampleError) else dict(fields) for _, fields in reads]


@given(rows=OBJECTS, piece=st.integers(1, 40), indent=st.sampled_from([None, 1]))
def test_reads_as_json_loads(rows: list[dict[str, Any]], piece: int, indent: int | None) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_rows, "_PIECE", piece)
        listed = json.dumps(rows, indent=indent, ensure_ascii=False)
        content = listed.encode("utf-8", "replace")
        assert objects(read_document(io.BytesIO(content))) == json.loads(content)
        one_by_one = "\n".join(json.dumps(row, indent=indent) for row in rows)
        assert objects(read_document(io.BytesIO(one_by_one.encode()))) == rows


def test_a_large_row_is_read_but_not_a_larger_one(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"a": "x" * 300_000}
    assert objects(read_document(io.BytesIO(json.dumps([row, {}, row]).encode()))) == [row, {}, row]
    monkeypatch.setattr(json_rows, "LONGEST_LINE", 100_000)
    with pytest.raises(ValueError, match="no complete row within 100000 characters"):
        list(read_document(io.BytesIO(json.dumps([row]).encode())))
