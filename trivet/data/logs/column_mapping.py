"""Rows of a log as examples, under the field names of the common tools.

A row that cannot be evaluated becomes a :class:`~trivet.records.FailedEvaluation` that names its
place; the rest is read.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from trivet.data.files.json_lines import Fields
from trivet.data.logs.context_values import kind_of, plain, read_contexts, read_ids
from trivet.data.logs.log import SourceRow
from trivet.data.logs.paths import MISSING, first_name, follow, is_path
from trivet.errors import DataError, ExampleError
from trivet.records import FailedEvaluation, RagExample

FIELD_NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("id",),
    "question": ("question", "user_input", "query", "input"),
    "contexts": (
        *("contexts", "retrieved_contexts", "retrieval_context"),
        *("documents", "context", "passages", "docs", "chunks", "sources"),
    ),
    "response": ("response", "answer", "actual_output", "output"),
    "context_ids": ("context_ids", "retrieved_context_ids"),
}
"""Our field names and those of other tools; case is ignored."""

# Names that also have other meanings: they count only in rows without a plainer name.
_VAGUE = frozenset({"docs", "chunks", "sources"})
_REQUIRED = ("question", "contexts", "response")

Unicode = Literal["error", "replace"]
Scalar: TypeAlias = str | int | float | bool
_LONGEST_TEXT = 200  # characters of metadata; a longer value is a text, not a name
_CHECKED_ROWS = 64  # rows of which one must have all columns
_SHOWN_COLUMNS, _SHOWN_LETTERS = 50, 60  # of a row, in a message
_COLUMN_CODES = frozenset({"missing_field", "ambiguous_field"})


@dataclass(frozen=True, slots=True)
class LogRow:
    """A row whose columns were mapped to the fields of an example."""

    number: int  # number of the row over the whole log, from 1
    place: str  # place of the row for messages
    line: int | None  # line in its file, if the format has lines
    example: RagExample | FailedEvaluation  # the example, or the reason why there is none
    context_ids: tuple[str | None, ...] | None = None  # ids of the contexts, if the row has any
    # values of the metadata columns by name
    metadata: Mapping[str, Scalar] = field(default_factory=dict)


class Columns:
    """The mapping from a log's columns to the fields of an example."""

    def __init__(
        self,
        mapping: Mapping[str, str] | None = None,
        metadata: Iterable[str] | None = None,
        bad_unicode: Unicode = "error",
        *,
        id_by_place: bool = True,
    ) -> None:
        """Choose the columns.

        Args:
            mapping: Column names for some of our fields, such as ``{"question": "prompt"}``, or
                paths such as ``{"contexts": "outputs.documents[].page_content"}``.
            metadata: Columns that are returned with the verdicts; ``None`` means by content.
            bad_unicode: Whether a lone surrogate is an error, or read as U+FFFD.
            id_by_place: Whether the place of a row without an id becomes its id.

        Raises:
            DataError: ``mapping`` names an unknown field.
        """
        self._names = dict(FIELD_NAMES)
        for ours, theirs in (mapping or {}).items():
            if ours not in FIELD_NAMES:
                raise DataError(
                    f"no field {ours!r} to map {theirs!r} to; ours: {', '.join(FIELD_NAMES)}"
                )
            self._names[ours] = (theirs,)
        self._ours = frozenset(name.lower() for names in self._names.values() for name in names)
        self._metadata = None if metadata is None else tuple(metadata)
        self._bad_unicode = bad_unicode
        self._id_by_place = id_by_place

    def check(self, columns: Iterable[str]) -> None:
        """Raise ``DataError`` if a table with these columns lacks a required field."""
        given = list(columns)
        names = {name.lower() for name in given}
        lacking = [
            ours
            for ours in _REQUIRED
            if not any(
                name.lower() in names or (is_path(name) and first_name(name).lower() in names)
                for name in self._names[ours]
            )
        ]
        if lacking:
            raise DataError(f"the table {self._lacks(lacking, given)}")

    def read(self, row: SourceRow) -> LogRow:
        """Read one row."""
        name: str | None = None
        metadata: dict[str, Scalar] = {}
        try:
            if isinstance(row.fields, ExampleError):
                raise row.fields
            by_name: dict[str, list[Any]] = {}
            for column, value in row.fields:
                by_name.setdefault(column.lower(), []).append(value)
            place = row.place if self._id_by_place else None
            name = _id(_only(self._values(by_name, "id"), "id"), place)
            values = {ours: self._values(by_name, ours) for ours in self._names}
            unused = _VAGUE - values["contexts"].keys()
            metadata = read_metadata(row.fields, self._metadata, self._ours - unused)
            if lacking := [ours for ours in _REQUIRED if not values[ours]]:
                raise ExampleError(self._lacks(lacking, by_name), code="missing_field")
            texts, ids = read_contexts(_only(values["contexts"], "contexts"))
            example = RagExample(
                question=_text(_only(values["question"], "question"), "question"),
                contexts=texts,
                response=_text(_only(values["response"], "response"), "response"),
                id=name,
            )
            if not any(ids):
                ids = read_ids(_only(values["context_ids"], "context_ids"), len(texts))
            if self._bad_unicode == "error":
                _check_unicode(example)
        except ExampleError as error:
            failed = FailedEvaluation(name, error.code, f"{row.place}: {error}")
            return LogRow(row.number, row.place, row.line, failed, metadata=metadata)
        context_ids = ids if any(ids) else None
        return LogRow(row.number, row.place, row.line, example, context_ids, metadata)

    def _values(self, row: Mapping[str, list[Any]], ours: str) -> dict[str, list[Any]]:
        """Return the values of a field by the names that hold it."""
        found = {}
        for name in self._names[ours]:
            if name.lower() in row:
                found[name] = [plain(value) for value in row[name.lower()]]
            elif is_path(name) and (first := first_name(name)).lower() in row:
                rest = name[len(first) :]
                below = [follow(plain(value), rest) for value in row[first.lower()]]
                if below := [plain(value) for value in below if value is not MISSING]:
                    found[name] = below
        plainer = {name: values for name, values in found.items() if name not in _VAGUE}
        return plainer or found

    def _lacks(self, lacking: Sequence[str], columns: Iterable[str]) -> str:
        """Return the message about all missing fields of a row with some columns."""
        # A row may have thousands of columns.
        shown = itertools.islice(columns, _SHOWN_COLUMNS)
        found = ", ".join(column[:_SHOWN_LETTERS] for column in shown) or "none"
        looked = "; ".join(", ".join(self._names[ours]) for ours in lacking)
        maps = " ".join(f"--map {ours}=NAME" for ours in lacking)
        python = ", ".join(f'"{ours}": NAME' for ours in lacking)
        return (
            f"has no {' and no '.join(lacking)} (looked for {looked}; found {found}); name the "
            f"field{'s' * (len(lacking) > 1)} with {maps}, in Python with mapping={{{python}}}"
        )


def read_rows(rows: Iterable[SourceRow], columns: Columns) -> Iterator[LogRow]:
    """Map the columns of rows, lazily and in order.

    A row must have a question, contexts and a response by name; ``null`` or an empty string means
    that there is none. The id of a row without one is its place: ``line-3``.

    Raises:
        DataError: None of the first rows has all columns, or none of them can be read at all: this
            is probably another kind of log.
    """
    read = (columns.read(row) for row in rows)
    first: list[LogRow] = []
    failures: list[FailedEvaluation] = []
    for row in itertools.islice(read, _CHECKED_ROWS):
        first.append(row)
        failed = row.example
        if isinstance(failed, RagExample) or failed.code not in (*_COLUMN_CODES, "malformed_line"):
            break
        failures.append(failed)
    else:
        only_columns = {failed.code for failed in failures} <= _COLUMN_CODES
        if first and (len(first) == _CHECKED_ROWS or only_columns):
            why = failures[0].message
            raise DataError(f"none of the first {len(first)} rows can be read; {why}")
    return itertools.chain(first, read)


def _only(present: Mapping[str, list[Any]], ours: str) -> Any:
    """Return the value of a field, given by name, or ``None`` if it is empty."""
    # Some tools write null under one name and the value under another.
    known = [value for values in present.values() for value in values if value is not None]
    if any(value != known[0] for value in known[1:]):
        raise ExampleError(
            f"holds several values for {ours} (under {', '.join(present)}); "
            f"keep one, or choose a name with --map {ours}=NAME",
            code="ambiguous_field",
        )
    return known[0] if known else None


def _id(value: Any, place: str | None) -> str | None:
    if value is None:
        return place and place.replace(" ", "-")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ExampleError("id is neither a string nor a number", code="bad_field")
    return str(value)


def _text(value: Any, ours: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ExampleError(f"{ours} is {kind_of(value)}, not a string", code="bad_field")
    return value


def _check_unicode(example: RagExample) -> None:
    """Refuse text that cannot be encoded."""
    texts = {"question": example.question, "response": example.response}
    texts |= {f"contexts[{number}]": text for number, text in enumerate(example.contexts)}
    for name, text in texts.items():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ExampleError(
                f"{name} holds a lone surrogate at character {error.start}; repair it; trivet "
                "evaluate reads it as U+FFFD with --bad-unicode replace",
                code="invalid_unicode",
            ) from error


def read_metadata(
    fields: Fields, chosen: tuple[str, ...] | None, ours: Set[str]
) -> dict[str, Scalar]:
    """Return the columns to be returned with the verdict; members of ``metadata`` count as columns.

    ``chosen`` names columns with any content (lists and objects as JSON text). ``None`` takes every
    column that is not in ``ours`` (lower case) and contains text of up to 200 characters, a number,
    or true or false.
    """
    columns: dict[str, Any] = {}
    for name, value in fields:
        if name.lower() == "metadata" and isinstance(value, Mapping):
            columns = {**value, **columns}
        else:
            columns[name] = value
    found = {}
    for name in columns if chosen is None else chosen:
        value = columns.get(name)
        if chosen is not None and isinstance(value, list | Mapping):
            value = json.dumps(value, ensure_ascii=False, default=str)
        scalar = _scalar(value)
        is_text = isinstance(scalar, str) and len(scalar) > _LONGEST_TEXT
        if scalar is not None and (chosen is not None or not (is_text or name.lower() in ours)):
            found[name] = scalar
    return found


def _scalar(value: Any) -> Scalar | None:
    """Return a value that JSON can hold, or ``None`` if it is empty or not a scalar."""
    if isinstance(value, decimal.Decimal):
        value = float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return value if isinstance(value, str | bool | int) else None
