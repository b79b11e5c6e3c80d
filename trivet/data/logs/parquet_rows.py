"""Rows of Parquet, a few at a time; the one reader that needs a package and a whole file."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

from trivet.data.logs.json_objects import Fields
from trivet.data.logs.json_rows import Read
from trivet.records import DataError, ExampleError

if TYPE_CHECKING:
    import pyarrow

_ROWS = 64  # of one batch; a row may hold long texts


def read_parquet(file: IO[bytes], *, seekable: bool) -> Iterator[Read]:
    """Yield the rows of a Parquet file.

    Args:
        file: Its bytes.
        seekable: Whether any part of it can be read at will. What is compressed as a whole, or
            comes from a pipe, is copied to a temporary file first.

    Raises:
        DataError: ``pyarrow`` is not installed.
        ValueError: The file is damaged, or no Parquet.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise DataError("Parquet needs a package: pip install 'trivet[parquet]'") from error
    try:
        if seekable:
            # Read piece by piece: the columns of a row group may not fit in memory.
            table = parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False)
            for batch in table.iter_batches(batch_size=_ROWS):
                yield from ((None, row) for row in _rows(batch))
            return
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(file, copy)
            copy.seek(0)
            yield from read_parquet(copy, seekable=True)
    except pyarrow.ArrowException as error:
        raise ValueError(str(error)) from error


def _rows(batch: pyarrow.RecordBatch) -> Iterator[Fields | ExampleError]:
    names = batch.schema.names
    try:
        columns = [column.to_pylist() for column in batch.columns]
    except UnicodeDecodeError:  # the format promises UTF-8, its writers do not
        for number in range(batch.num_rows):
            yield _row(names, batch, number)
        return
    for values in zip(*columns, strict=True):
        yield list(zip(names, values, strict=True))


def _row(names: list[str], batch: Any, number: int) -> Fields | ExampleError:
    try:
        return [
            (name, column[number].as_py())
            for name, column in zip(names, batch.columns, strict=True)
        ]
    except UnicodeDecodeError as error:
        return ExampleError(f"is not UTF-8 ({error})", code="malformed_line")
