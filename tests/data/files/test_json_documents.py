"""JSON documents read piece by piece."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.data.files import json_documents
from trivet.data.files.json_documents import read_document
from trivet.errors import ExampleError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 10**9) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), max_size=6)


def objects(reads: Iterator[Any]) -> list[Any]:
    return [None if isinstance(fields, ExampleError) else dict(fields) for _, fields in reads]


@given(rows=OBJECTS, piece=st.integers(1, 40), indent=st.sampled_from([None, 1]))
def test_reads_as_json_loads(rows: list[dict[str, Any]], piece: int, indent: int | None) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_documents, "_PIECE", piece)
        listed = json.dumps(rows, indent=indent, ensure_ascii=False)
        content = listed.encode("utf-8", "replace")
        assert objects(read_document(io.BytesIO(content))) == json.loads(content)
        one_by_one = "\n".join(json.dumps(row, indent=indent) for row in rows)
        assert objects(read_document(io.BytesIO(one_by_one.encode()))) == rows


def test_what_is_no_object_fails_in_its_place() -> None:
    found = objects(read_document(io.BytesIO(b'[{"a": 1}, 12, "x", {"b": 2}]')))
    assert found == [{"a": 1}, None, None, {"b": 2}]


@pytest.mark.parametrize(
    "text", ['[{"a": 1}', '[{"a": 1} {"b"', '[{"a": 1}]]', '{"a": 1}]', "[,]", '["\xff', "[" * 9999]
)
def test_what_is_no_document_breaks_off(text: str) -> None:
    with pytest.raises(ValueError):
        list(read_document(io.BytesIO(text.encode("latin-1"))))


def test_a_large_row_is_read_but_not_a_larger_one(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"a": "x" * 300_000}
    assert objects(read_document(io.BytesIO(json.dumps([row, {}, row]).encode()))) == [row, {}, row]
    monkeypatch.setattr(json_documents, "LONGEST_LINE", 100_000)
    with pytest.raises(ValueError, match="no whole row within 100000 characters"):
        list(read_document(io.BytesIO(json.dumps([row]).encode())))
