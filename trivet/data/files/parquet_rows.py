"""Rows of Parquet, a few at a time. The only reader of such files."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Iterator
from typing import IO, TYPE_CHECKING

from trivet.data.files.json_lines import Fields, Row
from trivet.errors import DataError, ExampleError, install_line

if TYPE_CHECKING:
    import pyarrow

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
        raise DataError(f"Parquet needs pyarrow; {install_line('parquet')}") from error
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
