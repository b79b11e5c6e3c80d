"""Rows of JSON lines: one object per line. The only reader of such files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, TypeAlias

from pydantic_core import from_json

from trivet.errors import ExampleError

Fields: TypeAlias = Sequence[tuple[str, Any]]
"""Names and values of a row, in order; a name may occur more than once."""

Row: TypeAlias = tuple[int | None, Fields | ExampleError]
"""Line number of a row, if its format has lines, and the row or the error in it."""

LONGEST_LINE = 64 << 20
"""Bytes; a longer line is an error, and is not held in memory."""


class JsonObject(dict[str, Any]):
    """A JSON object that keeps all ``pairs`` in order, so that repeated names are noticed."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def parse_line(line: bytes) -> Fields:
    """Parse a line with one JSON object; others raise ``ExampleError`` (``malformed_line``)."""
    try:
        value = json.loads(line.decode("utf-8-sig"), object_pairs_hook=JsonObject)
    except UnicodeDecodeError as error:
        raise ExampleError(
            f"is not UTF-8 ({error}); name its encoding with --encoding", code="malformed_line"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ExampleError(f"is not JSON ({error})", code="malformed_line") from error
    return fields_of(value)


def parse_plain_line(line: bytes) -> Fields:
    """Parse a line like ``parse_line``, five times as fast; the last of repeated names counts."""
    try:
        value = from_json(line)
    except ValueError:
        return parse_line(line)  # which names the error, or accepts lone surrogates and a BOM
    return list(value.items()) if isinstance(value, dict) else fields_of(value)


def fields_of(value: Any) -> Fields:
    """Return the pairs of a JSON object; other values raise ``ExampleError``."""
    if not isinstance(value, JsonObject):
        raise ExampleError("is not a JSON object", code="malformed_line")
    return value.pairs


def read_lines(file: IO[bytes], parse: Callable[[bytes], Fields] = parse_line) -> Iterator[Row]:
    """Yield the rows of a file of JSON lines; blank lines are skipped."""
    for number, line in enumerate(read_bounded(file), start=1):
        if line is None:
            yield number, ExampleError(f"is longer than {LONGEST_LINE} bytes", "malformed_line")
        elif line.strip():
            try:
                yield number, parse(line)
            except ExampleError as error:
                yield number, error


def read_bounded(file: IO[bytes], longest: int = LONGEST_LINE) -> Iterator[bytes | None]:
    """Yield the lines of a file with their ends, and ``None`` for a line that is too long."""
    while line := file.readline(longest + 1):
        if len(line) <= longest:
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(1 << 20)
        yield None
