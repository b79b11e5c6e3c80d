"""The rows of a log as examples: by plain names, else in the shape that the first rows have."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trivet.errors import DataError, ExampleError
from trivet.logs.column_mapping import REQUIRED, VAGUE, Columns, LogRow
from trivet.logs.context_values import kind_of
from trivet.logs.json_rows import Fields
from trivet.logs.log import SourceRow
from trivet.logs.paths import first_name, follow
from trivet.logs.shapes import COLUMNS, CONTAINERS, SHAPES, Shape
from trivet.records import FailedEvaluation, RagExample

logger = logging.getLogger(__name__)

_FIRST_ROWS = 64  # rows that decide how a file is read, and of which one must be readable
_COLUMN_CODES = frozenset({"missing_field", "ambiguous_field"})


@dataclass(frozen=True)
class Reading:
    """The way to read the records of a file."""

    columns: Columns
    inside: str = ""  # path to the rows inside of a record, as in `Shape.rows`

    def rows(self, record: SourceRow) -> list[SourceRow]:
        """Return the rows inside of a record; the record itself if it holds none."""
        if not self.inside or isinstance(record.fields, ExampleError):
            return [record]
        inner = rows_inside(dict(record.fields), self.inside)
        if inner is None:
            return [record]
        return [
            replace(record, location=f"{record.location} {where}", fields=fields)
            for where, fields in inner
        ]

    def read(self, record: SourceRow) -> list[LogRow]:
        """Return the rows inside of a record, mapped; of a conversation, each judged answer."""
        return [mapped for row in self.rows(record) for mapped in self.columns.read_turns(row)]


def read_rows(
    rows: Iterable[SourceRow], columns: Columns, *, at_once: bool = False
) -> Iterator[LogRow]:
    """Map the columns of rows, lazily and in order.

    A row must have a question, contexts and a response; ``null`` or an empty string means that
    there is none. The id of a row without one is its location: ``line-3``. A file of which no first
    row is readable by plain names is read in the shape that most of them have, or ``at_once`` in
    that of the first record.

    Raises:
        DataError: None of the first rows has all columns, or none of them can be read at all: this
            is probably another kind of log. Or they have two shapes.
    """
    read = _recognised(rows, columns, at_once)
    first: list[LogRow] = []
    failures: list[FailedEvaluation] = []
    for row in itertools.islice(read, _FIRST_ROWS):
        first.append(row)
        failed = row.example
        if isinstance(failed, RagExample) or failed.code not in (*_COLUMN_CODES, "malformed_line"):
            break
        failures.append(failed)
    else:
        only_columns = {failed.code for failed in failures} <= _COLUMN_CODES
        if first and (len(first) == _FIRST_ROWS or only_columns):
            why = failures[0].message
            raise DataError(f"none of the first {len(first)} rows can be read; {why}")
    absent = [name for name in columns.metadata or () if all(name not in r.metadata for r in first)]
    if first and absent:
        logger.warning("no metadata column %s in row %d", ", ".join(absent), first[-1].number)
    return itertools.chain(first, read)


def _recognised(rows: Iterable[SourceRow], columns: Columns, at_once: bool) -> Iterator[LogRow]:
    """Yield the rows of each file in the shape that its own first records have."""
    announced, added = "", 0  # rows that records held beyond one each
    for file, records in itertools.groupby(rows, key=lambda row: row.file):
        first: list[SourceRow] = []
        broken: DataError | None = None
        reading: Reading | None = None
        try:
            for record in itertools.islice(records, _FIRST_ROWS):
                first.append(record)
                if columns.shape is None:
                    reading = Reading(columns) if is_plain(record, columns) else None
                else:
                    reading = choose([record], columns)
                if reading is not None or (at_once and not isinstance(record.fields, ExampleError)):
                    break
        except DataError as error:  # the rows before are evaluated
            broken = error
        if reading is None:
            reading = choose(first, columns)
            if reading is not None and (line := describe(first, reading)) != announced:
                logger.info("%s%s", f"{file}: " if file else "", line)
                announced = line
        reading = reading or _nearest(first, columns)
        for record in itertools.chain(first, records if broken is None else ()):
            if not (reading.inside or added or columns.turns == "all"):
                yield reading.columns.read(record)
                continue
            mapped = reading.read(record)
            for offset, row in enumerate(mapped):
                yield replace(row, number=record.number + added + offset)
            added += len(mapped) - 1
        if broken is not None:
            raise broken


def is_plain(record: SourceRow, columns: Columns) -> bool:
    """Tell whether a record is readable by plain names.

    Contexts under a name that also has other meanings (``sources``) do not count where a shape has
    them too.
    """
    if columns.rows or not _reads(columns.read(record)):
        return False
    return _is_named(record, columns) or choose([record], columns) is None


def _is_named(record: SourceRow, columns: Columns) -> bool:
    """Tell whether a record has all fields by plain names, whatever their values."""
    used = columns.used(record)
    return len(used) == len(REQUIRED) and used["contexts"] not in VAGUE


def choose(records: Sequence[SourceRow], columns: Columns) -> Reading | None:
    """Return how most of the records can be read, by the table of shapes; ``None`` if in no way.

    Raises:
        DataError: Two shapes give as many examples, and different ones.
    """
    shapes, unnamed = _shapes(columns), records
    if columns.shape is None:  # else all records are in the shape that was named
        unnamed = [record for record in records if not _is_named(record, columns)]
    candidates: list[tuple[tuple[int, int], Reading, list[RagExample]]] = []
    for shape in shapes:
        direct = [shape.rows, ""] if shape.fields else [shape.rows]
        for inside in (columns.rows,) if columns.rows else dict.fromkeys((*direct, *CONTAINERS)):
            reading = Reading(columns.in_shape(shape), inside)
            examples = _examples(unnamed if shape.fields else records, reading)
            if examples:
                whole = sum(bool(example.contexts and example.response) for example in examples)
                candidates.append(((whole, len(examples)), reading, examples))
                break
    if not candidates:
        return None
    most = max(count for count, _, _ in candidates)
    (_, best, examples), *others = (candidate for candidate in candidates if candidate[0] == most)
    for _, other, differing in others:
        if any(map(_differ, examples, differing)):
            raise DataError(_ambiguous(records, best, other))
    return best


def _shapes(columns: Columns) -> Iterable[Shape]:
    return SHAPES.values() if columns.shape is None else [columns.shape]


def _examples(records: Sequence[SourceRow], reading: Reading) -> list[RagExample]:
    """Return the examples in the first rows of records."""
    inside = (reading.rows(record) for record in records)
    held = [rows for rows, record in zip(inside, records, strict=True) if rows != [record]]
    rows = itertools.chain.from_iterable(held) if reading.inside else records
    read = (reading.columns.read(row).example for row in itertools.islice(rows, _FIRST_ROWS))
    return [example for example in read if isinstance(example, RagExample)]


def _nearest(records: Sequence[SourceRow], columns: Columns) -> Reading:
    """Return the one shape of which the records have more fields than of any other."""
    plain = max((len(columns.used(record)) for record in records), default=0)
    candidates: list[tuple[int, Reading]] = []
    for shape in _shapes(columns):
        reading = Reading(columns.in_shape(shape), columns.rows or shape.rows)
        rows = (row for record in records for row in reading.rows(record))
        used = (reading.columns.used(row) for row in itertools.islice(rows, _FIRST_ROWS))
        candidates.append((max(map(len, used), default=0), reading))
    most = max(count for count, _ in candidates)
    best = [reading for count, reading in candidates if count == most]
    named = columns.shape is not None
    if named or (len(best) == 1 and most > plain):
        return best[0]
    return Reading(columns, columns.rows)


def describe(records: Sequence[SourceRow], reading: Reading) -> str:
    """Return the line that says how records are read, with the path of each field."""
    rows = [row for record in records for row in reading.rows(record)]
    row = next(row for row in rows if _reads(reading.columns.read(row)))
    paths = {"rows": reading.inside} if reading.inside not in ("", COLUMNS) else {}
    paths |= reading.columns.used(row)
    shape = reading.columns.shape or SHAPES["columns"]
    listed = ", ".join(f"{ours} = {path}" for ours, path in paths.items())
    return f"read as {shape.title} (--format {shape.name}): {listed}"


def _ambiguous(records: Sequence[SourceRow], first: Reading, other: Reading) -> str:
    lines = [describe(records, reading).removeprefix("read as ") for reading in (first, other)]
    return (
        f"{records[0].file or 'the input'} can be read as {lines[0]}; and as {lines[1]}; choose "
        "one, or name the fields with --map, in Python with mapping={...}"
    )


def _differ(first: RagExample, other: RagExample) -> bool:
    texts = [(example.question, example.contexts, example.response) for example in (first, other)]
    return texts[0] != texts[1]


def _reads(row: LogRow) -> bool:
    return isinstance(row.example, RagExample)


def rows_inside(
    record: Mapping[str, Any], path: str
) -> list[tuple[str, Fields | ExampleError]] | None:
    """Return the rows at a path inside of a record, each with its place there.

    Members of the objects around a row, except for their ids, are members of the row as well, but
    not those of `CONTAINERS`. ``None`` if the record has no such rows.
    """
    if path == COLUMNS:
        return _transposed(record)
    located: list[tuple[str, Mapping[str, Any] | ExampleError]] = [("", record)]
    for depth, step in enumerate(path.split("[]")[:-1]):
        step = step.removeprefix(".")
        inner: list[tuple[str, Mapping[str, Any] | ExampleError]] = []
        for where, outer in located:
            listed = None if isinstance(outer, ExampleError) else follow(outer, step)
            if isinstance(outer, ExampleError) or not isinstance(listed, list | tuple):
                if not depth:
                    return None
                error = ExampleError(f"has no list {step}", code="missing_field")
                inner.append((where, outer if isinstance(outer, ExampleError) else error))
                continue
            ignored = outer if path in CONTAINERS else ("id", first_name(step))
            around = {name: value for name, value in outer.items() if name not in ignored}
            inner += [
                (f"{where}{'.' if where else ''}{step}[{number}]", _inner(around, item))
                for number, item in enumerate(listed)
            ]
        located = inner
    return [
        (where, row if isinstance(row, ExampleError) else list(row.items()))
        for where, row in located
    ]


def _inner(around: Mapping[str, Any], item: Any) -> Mapping[str, Any] | ExampleError:
    if isinstance(item, Mapping):
        return {**around, **item}
    return ExampleError(f"is {kind_of(item)}, not an object", code="malformed_line")


def _transposed(record: Mapping[str, Any]) -> list[tuple[str, Fields | ExampleError]] | None:
    """Return the rows of columns, as pandas and Arrow write them; a short column lacks values."""
    values = list(record.values())
    rows: list[Any]
    if {"columns", "data"} <= set(record) <= {"columns", "data", "index"}:
        if not all(isinstance(row, list) for row in (record["columns"], record["data"])):
            return None
        rows = [
            dict(zip(record["columns"], row, strict=False)) if isinstance(row, list) else row
            for row in record["data"]
        ]
    elif len(values) < 2:
        return None
    elif all(isinstance(value, list | tuple) for value in values):
        rows = [
            {name: column[number] for name, column in record.items() if number < len(column)}
            for number in range(max(map(len, values)))
        ]
    elif all(isinstance(value, Mapping) for value in values):
        keys = dict.fromkeys(key for column in values for key in column)
        numbered = all(str(key).isdecimal() for key in keys)  # as pandas numbers rows
        if not numbered and any(column.keys() != keys.keys() for column in values):
            return None
        rows = [
            {name: column[key] for name, column in record.items() if key in column} for key in keys
        ]
    else:
        return None
    inner = [_inner({}, row) for row in rows]
    return [
        (f"[{number}]", row if isinstance(row, ExampleError) else list(row.items()))
        for number, row in enumerate(inner)
    ]
