"""Rows that Python holds: examples, dictionaries, DataFrames, Arrow tables and data sets."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator, Mapping
from typing import Any

from trivet.errors import DataError
from trivet.logs.column_mapping import Columns, Mapped
from trivet.logs.log import SourceRow
from trivet.logs.recognition import Reading, choose, describe, is_plain
from trivet.records import FailedEvaluation, RagExample

logger = logging.getLogger(__name__)

Given = RagExample | FailedEvaluation
Rows = Iterable[Any] | AsyncIterable[Any]

_CALL = 'evaluate_many([{"question": "...", "contexts": ["..."], "response": "..."}])'
_BATCH_ROWS = 64  # rows of an Arrow table that are converted at once


class RowReader:
    """Reads rows of any kind as examples, one by one."""

    def __init__(self, mapping: Mapped | None = None) -> None:
        """Choose the columns as `Columns` does; raises ``DataError`` for an unknown field."""
        self.columns = Columns(mapping, metadata=(), id_by_location=False)
        self._reading: Reading | None = None  # that of the first row that was readable
        self._count = 0

    def read(self, row: object) -> Given:
        """Read the next row; one that cannot be read is a failure with its number.

        Raises:
            TypeError: The first row is neither an example nor a mapping.
        """
        self._count += 1
        if isinstance(row, RagExample | FailedEvaluation):
            return row
        where = f"row {self._count}"
        if not isinstance(row, Mapping):
            message = (
                f"{where} is a value of type {type(row).__name__}, not a RagExample or a "
                f"dictionary; call {_CALL}"
            )
            if self._count == 1:
                raise TypeError(message)
            return FailedEvaluation(None, "bad_row", message)
        fields = [(str(name), value) for name, value in row.items()]
        source = SourceRow(self._count, where, None, fields)
        if self._reading is None:
            self._reading = self._recognised(source)
        rows = (self._reading or Reading(self.columns)).read(source)
        if len(rows) == 1:
            return rows[0].example
        message = f"{where} holds {len(rows)} rows; give each of them alone"
        return FailedEvaluation(None, "bad_row", message)

    def _recognised(self, row: SourceRow) -> Reading | None:
        """Return how a row can be read: by plain names, else in one shape."""
        try:
            if is_plain(row, self.columns):
                return Reading(self.columns)
            reading = choose([row], self.columns)
        except DataError as error:
            logger.warning("%s", error)
            return None
        if reading is not None:
            logger.info("%s", describe([row], reading))
        return reading


def read_examples(rows: object, mapping: Mapped | None = None) -> Iterator[Given]:
    """Return the examples of rows of any kind, lazily and in order.

    Raises:
        TypeError: ``rows`` are not iterable, or one row or a path instead of rows.
        DataError: A table lacks a required column, or ``mapping`` names an unknown field.
    """
    reader = RowReader(mapping)
    return map(reader.read, _iterate(rows, reader.columns))


async def iterate_examples(rows: Rows, mapping: Mapped | None = None) -> AsyncGenerator[Given]:
    """Yield the examples of rows that may come asynchronously; errors as of `read_examples`."""
    if isinstance(rows, AsyncIterable):
        reader = RowReader(mapping)
        async for row in rows:
            yield reader.read(row)
    else:
        for example in read_examples(rows, mapping):
            yield example


def check_rows(rows: object) -> None:
    """Raise ``TypeError`` for a value that does not hold rows."""
    hint = None
    if isinstance(rows, str | bytes) or hasattr(rows, "__fspath__"):
        hint = "to evaluate a file, use `trivet evaluate FILE` or read it first"
    elif isinstance(rows, RagExample | FailedEvaluation):
        hint = "put it in a list: evaluate_many([example])"
    elif isinstance(rows, Mapping):
        splits = [name for name, value in rows.items() if hasattr(value, "column_names")]
        hint = "put it in a list: evaluate_many([row])"
        if splits:
            hint = f"choose a split: evaluate_many(data[{splits[0]!r}])"
    elif hasattr(rows, "collect_schema") and hasattr(rows, "collect"):
        hint = "call evaluate_many(frame.collect())"
    elif not isinstance(rows, Iterable | AsyncIterable) and not hasattr(rows, "to_batches"):
        hint = f"call {_CALL}"
    if hint is not None:
        raise TypeError(
            "evaluate_many takes rows (RagExamples or dictionaries), a DataFrame, an Arrow table "
            f"or a data set, not a value of type {type(rows).__name__}; {hint}"
        )


def count_rows(rows: object) -> int | None:
    """Return how many rows there are, if that is known."""
    return len(rows) if hasattr(rows, "__len__") else None


def _iterate(rows: Any, columns: Columns) -> Iterator[object]:
    """Return the rows of any kind of table, without importing its library."""
    check_rows(rows)
    # Frames of pandas and polars have `columns`; tables of Arrow and datasets have `column_names`.
    names = getattr(rows, "column_names", None) or getattr(rows, "columns", None)
    if names is None or isinstance(names, str) or callable(names):
        return iter(rows)
    names = [str(name) for name in names]
    if twice := [name for number, name in enumerate(names) if name in names[:number]]:
        raise DataError(f"the column {', '.join(twice)} occurs twice; rename or drop one")
    columns.check(names)
    if hasattr(rows, "iter_rows"):  # polars
        return iter(rows.iter_rows(named=True))
    if hasattr(rows, "itertuples"):  # pandas
        pairs = rows.itertuples(index=False, name=None)
        return (dict(zip(names, row, strict=True)) for row in pairs)
    if hasattr(rows, "to_batches"):  # pyarrow
        batches = rows.to_batches(max_chunksize=_BATCH_ROWS)
        return (row for batch in batches for row in batch.to_pylist())
    return iter(rows)
