"""Rows of CSV: a header, then one row per record; cells are text."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator
from typing import IO

from trivet.data.files.json_lines import LONGEST_LINE, Fields, Row, read_bounded
from trivet.errors import ExampleError

_DELIMITERS = ",;\t|"


def read_csv(file: IO[bytes], delimiter: str | None = None) -> Iterator[Row]:
    """Yield the rows of a CSV file in UTF-8; a record that cannot be read is an error in its place.

    Without a ``delimiter``, it is the one of ``,``, ``;``, tab and ``|`` most frequent in the
    header.

    Raises:
        ValueError: A line is longer than a row may be.
    """
    # The module has one limit per process: a response may well exceed the default of 128 KB.
    csv.field_size_limit(LONGEST_LINE)
    lines = _decode(file)
    first = next(lines, "")
    delimiter = delimiter or max(_DELIMITERS, key=first.count)
    # Strict: otherwise a quote that is never closed silently swallows the rest of the file.
    again = itertools.chain([first] if first else [], lines)
    records = csv.reader(again, delimiter=delimiter, strict=True)
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


def _row(header: list[str], cells: list[str]) -> Fields | ExampleError:
    if len(cells) != len(header):
        return ExampleError(
            f"has {len(cells)} cells, but the header names {len(header)}", code="malformed_line"
        )
    try:
        "".join(cells).encode()
    except UnicodeEncodeError:
        return ExampleError(
            "is not UTF-8; name its encoding with --encoding, such as cp1252", code="malformed_line"
        )
    return list(zip(header, cells, strict=True))


def _decode(file: IO[bytes]) -> Iterator[str]:
    for number, line in enumerate(read_bounded(file), start=1):
        if line is None:
            raise ValueError(f"line {number} is longer than {LONGEST_LINE} bytes")
        # Bytes that are not UTF-8 become lone surrogates, which mark the record as malformed.
        yield line.decode("utf-8", "surrogateescape").removeprefix("\ufeff" if number == 1 else "")
