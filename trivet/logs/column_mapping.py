"""Rows of a log as examples, under the field names of the common tools.

A row that cannot be evaluated becomes a :class:`~trivet.records.FailedEvaluation` that names its
place; the rest is read.
"""

from __future__ import annotations

import copy
import datetime
import decimal
import json
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

from trivet.errors import DataError, ExampleError
from trivet.logs.context_values import (
    as_written,
    joined_parts,
    kind_of,
    names_or_none,
    plain,
    read_contexts,
    read_ids,
)
from trivet.logs.conversation import Turn, Turns, read_turns
from trivet.logs.json_rows import Fields
from trivet.logs.log import SourceRow
from trivet.logs.paths import (
    MISSING,
    first_name,
    follow,
    is_path,
    parse_nested,
    suggested_mapping,
    text_paths,
)
from trivet.logs.shapes import SHAPES, Shape, conversation
from trivet.logs.written_lists import listed
from trivet.records import ContextName, FailedEvaluation, RagExample

FIELD_NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("id",),
    "question": ("question", "user_input", "query", "input"),
    "contexts": (
        *("contexts", "retrieved_contexts", "retrieved_context", "retrieval_context"),
        "retrievalContext",
        *("documents", "context", "passages", "docs", "chunks", "sources"),
    ),
    "response": ("response", "answer", "actual_output", "actualOutput", "output"),
    "context_ids": ("context_ids", "retrieved_context_ids"),
}
"""Our field names and those of other tools; case is ignored."""

# Names that also have other meanings: they count only in rows without a plainer name.
VAGUE = frozenset({"docs", "chunks", "sources"})
REQUIRED = ("question", "contexts", "response")
MAPPED = (*FIELD_NAMES, "rows", "messages")
"""Names that a mapping may have: our fields, and where rows and chat messages are."""
_OURS = ", ".join(MAPPED)
_LISTS = frozenset({"contexts", "context_ids"})

Scalar: TypeAlias = str | int | float | bool
_LONGEST_TEXT = 200  # characters of metadata; a longer value is a text, not a name
Mapped: TypeAlias = Mapping[str, str | Sequence[str]]
"""Names or paths of columns by our fields; contexts may be in several, in order."""


@dataclass(frozen=True, slots=True)
class LogRow:
    """A row whose columns were mapped to the fields of an example."""

    number: int  # number of the row over the whole log, from 1
    location: str  # of the row for messages
    line: int | None  # line in its file, if the format has lines
    example: RagExample | FailedEvaluation  # the example, or the reason why there is none
    context_ids: tuple[str | None, ...] | None = None  # ids of the contexts, if the row has any
    # values of the metadata columns by name
    metadata: Mapping[str, Scalar] = field(default_factory=dict)


class Columns:
    """The mapping from a log's columns to the fields of an example."""

    def __init__(
        self,
        mapping: Mapped | None = None,
        metadata: Iterable[str] | None = None,
        *,
        id_by_location: bool = True,
        format: str | None = None,  # noqa: A002
        turns: Turns = "last",
    ) -> None:
        """Choose the columns.

        Args:
            mapping: Column names for some of our fields, such as ``{"question": "prompt"}``, or
                paths such as ``{"contexts": "outputs.documents[].page_content"}``; of contexts,
                a list of several. ``rows`` is the path to the rows inside of a record
                (``samples[]``), ``messages`` the column of a conversation.
            metadata: Columns that are returned with the verdicts; ``None`` means by content.
            id_by_location: Whether the location of a row without an id becomes its id.
            format: Name of the rows' shape, as in `SHAPES`; any other is that of a file.
            turns: Answers of a conversation that are judged.

        Raises:
            DataError: ``mapping`` names an unknown field.
        """
        self.mapping = {
            ours: (theirs,) if isinstance(theirs, str) else tuple(theirs)
            for ours, theirs in (mapping or {}).items()
        }
        for ours, theirs in self.mapping.items():
            if ours not in MAPPED:
                raise DataError(f"no field {ours!r} to map {theirs[0]!r} to; ours: {_OURS}")
            if len(theirs) > 1 and ours not in _LISTS:
                raise DataError(f"{ours} is mapped to {' and to '.join(theirs)}; choose one")
        rows = self.mapping.pop("rows", ("",))[0]
        self.rows = rows and rows.removesuffix("[]") + "[]"
        chat = self.mapping.pop("messages", None)
        shape = SHAPES.get(format or "") if chat is None else conversation("", "chat", chat[0])
        self._take_shape(shape)
        self.metadata = None if metadata is None else tuple(metadata)
        self._id_by_location = id_by_location
        self.turns = turns

    def _take_shape(self, shape: Shape | None) -> None:
        self.shape = shape
        self._names = {**FIELD_NAMES, **(shape.fields if shape else {}), **self.mapping}
        names = [name for names in self._names.values() for name in names]
        if shape is not None:
            names += [first_name(name) for name in names]
        self._ours = frozenset(name.lower() for name in names)

    def in_shape(self, shape: Shape) -> Self:
        """Return the mapping for rows of a shape, whose paths ``mapping`` replaces."""
        shaped = copy.copy(self)
        shaped._take_shape(shape)
        return shaped

    def check(self, columns: Iterable[str]) -> None:
        """Raise ``DataError`` if a table with these columns has the required fields in no shape."""
        names = list(columns)
        lacking = self._lacking(names)
        if lacking and all(self.in_shape(shape)._lacking(names) for shape in SHAPES.values()):
            raise DataError(f"the table {self._lacks(lacking, names)}")

    def _lacking(self, columns: Iterable[str]) -> list[str]:
        """Return the required fields that no column may hold."""
        names = {name.lower() for name in columns}
        return [
            ours
            for ours in REQUIRED
            if not any(
                name.lower() in names or (is_path(name) and first_name(name).lower() in names)
                for name in self._names[ours]
            )
        ]

    def used(self, row: SourceRow) -> dict[str, str]:
        """Return the name or path of each required field that a row has."""
        by_name = values_by_name(row)
        used = {}
        for ours in REQUIRED:
            try:
                values = self._values(by_name, ours)
            except ExampleError:
                continue
            if values:
                used[ours] = list(values)[-1]
        return used

    def read(self, row: SourceRow) -> LogRow:
        """Read one row; of a conversation, its last judged answer."""
        return self.read_turns(row)[-1]

    def read_turns(self, row: SourceRow) -> list[LogRow]:
        """Read one row: one for each judged answer of a conversation, else one."""
        name: str | None = None
        metadata: dict[str, Scalar] = {}
        try:
            if isinstance(row.fields, ExampleError):
                raise row.fields
            by_name = values_by_name(row)
            default = row.location if self._id_by_location else None
            name = _id(_only(self._values(by_name, "id"), "id"), default)
            values = {ours: self._values(by_name, ours) for ours in self._names}
            unused = VAGUE - values["contexts"].keys()
            metadata = read_metadata(row.fields, self.metadata, self._ours - unused)
            turns = self._conversation(by_name, name)
            lacking = [ours for ours in REQUIRED if not values[ours]]
            if lacking and not turns:
                raise ExampleError(self._lacks(lacking, by_name), code="missing_field")
            examples = [self._example(values, name, turn) for turn in turns or (None,)]
        except ExampleError as error:
            failed = FailedEvaluation(name, error.code, f"{row.location}: {error}")
            return [LogRow(row.number, row.location, row.line, failed, metadata=metadata)]
        return [
            LogRow(row.number, row.location, row.line, example, ids or None, metadata)
            for example in examples
            for ids in [tuple(context.id or context.title for context in example.context_names)]
        ]

    def _conversation(self, row: Mapping[str, list[Any]], name: str | None) -> list[Turn]:
        """Return the judged answers of a row that holds a conversation."""
        column = row.get(self.shape.messages) if self.shape and self.shape.messages else None
        messages = parse_nested(plain(column[0])) if column else None
        return [] if messages is None else read_turns(messages, turns=self.turns, id=name)

    def _example(
        self, values: Mapping[str, dict[str, list[Any]]], name: str | None, turn: Turn | None
    ) -> RagExample:
        """Return the example in the values of each field, and in an answer of a conversation."""
        fields = set(self._names)
        if turn is not None and self.shape is not None:
            fields = {
                ours
                for ours, by_path in values.items()
                if by_path and first_name(list(by_path)[-1]) != self.shape.messages
            }
        if turn is not None and "contexts" not in fields:
            texts, names = turn.example.contexts, turn.example.context_names
        else:
            texts, names = read_contexts(_only(values["contexts"], "contexts"))
            if not any(map(any, names)):
                ids = read_ids(_only(values["context_ids"], "context_ids"), len(texts))
                names = tuple(ContextName(name) for name in ids)
        written = {
            ours: _text(_only(values[ours], ours), ours)
            if turn is None or ours in fields
            else getattr(turn.example, ours)
            for ours in ("question", "response")
        }
        named = name if turn is None else turn.example.id
        return RagExample(
            written["question"],
            texts,
            written["response"],
            named,
            context_names=names_or_none(names),
        )

    def _values(self, row: Mapping[str, list[Any]], ours: str) -> dict[str, list[Any]]:
        """Return the values of a field by the names that hold it."""
        chosen = self.mapping.get(ours, ())
        if len(chosen) > 1:
            return _joined(row, chosen)
        by_name: dict[str, list[Any]] = {}
        for name in self._names[ours]:
            if self.shape and any(value for values in by_name.values() for value in values):
                break  # the first path that leads to a value counts
            try:
                if values := values_at(row, name):
                    by_name[name] = values
            except ExampleError:
                if ours in REQUIRED or ours in self.mapping:
                    raise
        if self.shape:
            last = list(by_name.items())[-1:]
            return {name: [None if v in ("", []) else v for v in values] for name, values in last}
        plainer = {name: values for name, values in by_name.items() if name not in VAGUE}
        return plainer or by_name

    def _lacks(self, lacking: Sequence[str], columns: Iterable[str]) -> str:
        """Return the message about all missing fields of a row with some columns."""
        row = columns if isinstance(columns, Mapping) else dict.fromkeys(columns, "")
        paths = text_paths({name: at[-1] if at else "" for name, at in row.items()})
        present = ", ".join(paths) or "none"
        looked = "; ".join(", ".join(self._names[ours]) for ours in lacking)
        likely = suggested_mapping(lacking, paths)
        maps = " ".join(f"--map {ours}={shlex.quote(path)}" for ours, path in likely.items())
        python = ", ".join(f'"{ours}": {path!r}' for ours, path in likely.items())
        return (
            f"has no {' and no '.join(lacking)} (looked for {looked}; found {present}); name the "
            f"field{'s' * (len(lacking) > 1)} with {maps}, in Python with mapping={{{python}}}"
        )


def values_by_name(row: SourceRow) -> dict[str, list[Any]]:
    """Return the values of a row by their names in lower case; none of a row that is refused."""
    by_name: dict[str, list[Any]] = {}
    for column, value in () if isinstance(row.fields, ExampleError) else row.fields:
        by_name.setdefault(column.lower(), []).append(value)
    return by_name


def values_at(row: Mapping[str, list[Any]], name: str) -> list[Any]:
    """Return the values in a column, in any case, or at a path into one; a path that fails raises.

    ``row`` is as `values_by_name` returns it.
    """
    if name.lower() in row:
        return [plain(value) for value in row[name.lower()]]
    first = first_name(name)
    column = first.strip('"').lower()
    if not is_path(name) or column not in row:
        return []
    below = [follow(plain(value), name[len(first) :]) for value in row[column]]
    return [plain(value) for value in below if value is not MISSING]


def _joined(row: Mapping[str, list[Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values of several columns as those of one, in order; empty ones do not count."""
    values = [value for name in names for value in values_at(row, name)]
    parts: list[Any] = []
    for value in values:
        part = listed(value, object) if isinstance(value, str) else as_written(value)
        parts += part if isinstance(part, list | tuple) else [part] * (part not in (None, ""))
    return {", ".join(names): [parts]} if values else {}


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


def _id(value: Any, default: str | None) -> str | None:
    if value is None:
        return default and default.replace(" ", "-")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ExampleError("id is neither a string nor a number", code="bad_field")
    return str(value)


def _text(value: Any, ours: str) -> str:
    if value is None:
        return ""
    value = as_written(value if isinstance(value, str) else joined_parts(value))
    if not isinstance(value, str):
        raise ExampleError(f"{ours} is {kind_of(value)}, not a string", code="bad_field")
    return value


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
    metadata = {}
    for name in columns if chosen is None else chosen:
        value = columns.get(name)
        if chosen is not None and isinstance(value, list | Mapping):
            value = json.dumps(value, ensure_ascii=False, default=str)
        scalar = _scalar(value)
        is_text = isinstance(scalar, str) and len(scalar) > _LONGEST_TEXT
        if scalar is not None and (chosen is not None or not (is_text or name.lower() in ours)):
            metadata[name] = scalar
    return metadata


def _scalar(value: Any) -> Scalar | None:
    """Return a value that JSON can hold, or ``None`` if it is empty or not a scalar."""
    if isinstance(value, decimal.Decimal):
        value = float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return value if isinstance(value, str | bool | int) else None
