"""Rows of CSV (cells are text), of the first sheet of a spreadsheet, and of Parquet."""

from __future__ import annotations

import csv
import io
import itertools
import re
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

from trivet.errors import DataError, ExampleError, install_line
from trivet.logs.json_rows import LONGEST_LINE, Fields, Row, read_bounded

if TYPE_CHECKING:
    import pyarrow


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


def needs_openpyxl() -> None:
    """Raise ``DataError`` if the package for spreadsheets is missing."""
    try:
        import openpyxl  # noqa: F401
    except ImportError as error:
        raise DataError(f".xlsx needs openpyxl; {install_line('files')}") from error


def read_xlsx(file: IO[bytes]) -> Iterator[Row]:
    """Yield the rows of the first sheet with their numbers in it; empty rows are skipped.

    Formulas have the values that were saved with them, and shares the text that is shown: "12%".

    Raises:
        DataError: ``openpyxl`` is not installed, or the sheet has merged cells.
        ValueError: The file is damaged, or not .xlsx.
    """
    needs_openpyxl()
    import openpyxl

    content = io.BytesIO(file.read())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about parts of a file that hold no cells
            # Read as a stream: a sheet of which one last cell is formatted has a million rows.
            book = openpyxl.load_workbook(content, data_only=True, read_only=True)
            sheet = book.worksheets[0]
            _refuse_merged(content, sheet)
            sheet.reset_dimensions()  # what is written there is often wrong
            yield from _sheet_rows(sheet.iter_rows())
    except DataError:
        raise
    except Exception as error:  # the library raises errors of zip, XML and many of its own
        raise ValueError(f"not a spreadsheet in .xlsx that can be read ({error})") from error


_MERGED = re.compile(rb'<mergeCell ref="([^"]+)"')


def _refuse_merged(content: io.BytesIO, sheet: Any) -> None:
    """Raise ``DataError`` for merged cells, of which a sheet in a stream does not tell."""
    with zipfile.ZipFile(content) as parts, parts.open(sheet._worksheet_path) as part:
        tail, ranges = b"", list[bytes]()
        while piece := part.read(1 << 20):
            ranges += (
                merged for merged in _MERGED.findall(tail + piece) if merged not in ranges[-1:]
            )
            tail = piece[piece.rfind(b"<") :]
    if ranges:
        more = f" and {len(ranges) - 1} more" if len(ranges) > 1 else ""
        raise DataError(
            f"sheet {sheet.title!r} has merged cells ({ranges[0].decode()}{more}), which leave "
            "rows without values; unmerge them and fill in every row"
        )


def _sheet_rows(rows: Iterable[Sequence[Any]]) -> Iterator[Row]:
    header: list[str] = []
    for number, cells in enumerate(rows, start=1):
        values = [_cell_value(cell) for cell in cells]
        if all(value is None for value in values):
            continue
        if not header:
            header = ["" if value is None else str(value).strip() for value in values]
            continue
        pairs = itertools.zip_longest(header, values)
        yield number, [(name or "", value) for name, value in pairs if name or value is not None]


def _cell_value(cell: Any) -> Any:
    """Return the value of a cell; that of a share as it is shown."""
    share = re.fullmatch(r"0(?:\.(0+))?%", getattr(cell, "number_format", "") or "")
    if share and isinstance(cell.value, int | float):
        return f"{cell.value:.{len(share[1] or '')}%}"
    return cell.value


_ROWS = 64  # rows in memory at once; a row may contain long texts


def read_parquet(
    file: IO[bytes], *, seekable: bool = True, columns: Collection[str] = ()
) -> Iterator[Row]:
    """Yield the rows of a Parquet file.

    Args:
        file: Content of the file.
        seekable: Whether the content can be read in any order; else it is first copied to disk.
        columns: Columns to read, as far as the file has them; all if it has none of them.

    Raises:
        DataError: ``pyarrow`` is not installed.
        ValueError: The file is damaged, or not Parquet.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise DataError(f"Parquet needs pyarrow; {install_line('files')}") from error
    try:
        if not seekable:
            with tempfile.TemporaryFile() as copy:
                shutil.copyfileobj(file, copy)
                copy.seek(0)
                yield from read_parquet(copy, columns=columns)
            return
        # Read piece by piece: the columns of a row group may not fit in memory.
        table = parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False)
        chosen = [name for name in columns if name in table.schema_arrow.names]
        for batch in table.iter_batches(batch_size=_ROWS, columns=chosen or None):
            yield from ((None, row) for row in _rows(batch))
    except pyarrow.ArrowException as error:
        raise ValueError(str(error)) from error


def _rows(batch: pyarrow.RecordBatch) -> Iterator[Fields | ExampleError]:
    names = batch.schema.names
    try:
        columns = [column.to_pylist() for column in batch.columns]
        yield from (list(zip(names, values, strict=True)) for values in zip(*columns, strict=True))
    except UnicodeDecodeError:  # the format promises UTF-8, but its writers do not check
        for number in range(batch.num_rows):
            try:
                row = [column[number].as_py() for column in batch.columns]
                yield list(zip(names, row, strict=True))
            except UnicodeDecodeError as error:
                yield ExampleError(f"is not UTF-8 ({error})", code="malformed_line")
