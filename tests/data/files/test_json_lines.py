"""JSON lines: both parsers agree except for repeated names, and no line fills the memory."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.data.files import json_lines
from trivet.data.files.json_lines import parse_line, parse_plain_line, read_bounded, read_lines
from trivet.errors import ExampleError

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), values, max_size=6), st.booleans())
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
    said = []
    for parse in (parse_line, parse_plain_line):
        with pytest.raises(ExampleError) as caught:
            parse(line)
        said.append((caught.value.code, str(caught.value)))
    assert said[0] == said[1]


def test_a_line_that_is_too_long_is_an_error_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "read_bounded", lambda file: read_bounded(file, 20))
    content = b'{"a": 1}\n{"a": "' + b"x" * 3_000_000 + b'"}\n\n{"b": 2}'
    (one, first), (two, error), (four, last) = read_lines(io.BytesIO(content))
    assert (one, two, four) == (1, 2, 4)
    assert (first, last) == ([("a", 1)], [("b", 2)])
    assert isinstance(error, ExampleError)
    assert list(read_bounded(io.BytesIO(b"12345\n123456\n"), 6)) == [b"12345\n", None]
