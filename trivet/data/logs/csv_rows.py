"""Rows of CSV: a header, then one row for each record; cells are text."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import IO

from trivet.data.logs.bounded_lines import LONGEST_LINE, read_bounded
from trivet.data.logs.json_rows import Read
from trivet.records import ExampleError

_DELIMITERS = ",;\t|"


def read_csv(file: IO[bytes], delimiter: str | None = None) -> Iterator[Read]:
    """Yield the rows of a CSV file; a record that cannot be read is an error in its place.

    Args:
        file: UTF-8, with or without a byte order mark.
        delimiter: What stands between cells; ``None`` takes that of ``,``, ``;``, tab and ``|``
            which the header has most of.

    Raises:
        ValueError: A line is longer than a row may be.
    """
    # For the whole process, as the module has it: a response may well exceed 128 KB.
    csv.field_size_limit(LONGEST_LINE)
    lines = _decode(file)
    first = next(lines, "")
    delimiter = delimiter or max(_DELIMITERS, key=first.count)
    # Strict: without it, a quote that is never closed swallows the rest of the file in silence.
    records = csv.reader(_again(first, lines), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    while True:
        line = records.line_num + 1
        try:
            cells = next(records)
        except StopIteration:
            return
        except csv.Error as error:
            yield line, ExampleError(f"is not CSV ({error})", code="malformed_line")
            continue
        if header is None:
            header = [name.strip() for name in cells]
        elif cells:
            yield line, _row(header, cells)


def _row(header: list[str], cells: list[str]) -> list[tuple[str, str]] | ExampleError:
    if len(cells) != len(header):
        return ExampleError(
            f"has {len(cells)} cells, but the header names {len(header)}", code="malformed_line"
        )
    try:
        "".join(cells).encode()
    except UnicodeEncodeError:
        return ExampleError("is not UTF-8", code="malformed_line")
    return list(zip(header, cells, strict=True))


def _decode(file: IO[bytes]) -> Iterator[str]:
    for number, line in enumerate(read_bounded(file), start=1):
        if line is None:
            raise ValueError(f"line {number} is longer than {LONGEST_LINE} bytes")
        # What is no UTF-8 becomes lone surrogates, by which the record is known afterwards.
        yield line.decode("utf-8", "surrogateescape").removeprefix("\ufeff" if number == 1 else "")


def _again(first: str, rest: Iterator[str]) -> Iterator[str]:
    """Yield a line that was looked at before the others."""
    if first:
        yield first
    yield from rest
