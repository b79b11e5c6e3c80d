"""Answers with a plain label each, in any file that a log may be: JSON lines, CSV, Parquet...

A label is a value of one column, at the top level or at a path: true or false, 1 or 0, right or
wrong, supported or unsupported. Empty means unknown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from trivet.errors import DataError, ExampleError
from trivet.labelled.grouping import choose_split, digest
from trivet.labelled.source_report import RowError, SourceReport
from trivet.logs.column_mapping import Columns, Mapped, values_at, values_by_name
from trivet.logs.log import STDIN
from trivet.logs.recognition import read_rows
from trivet.logs.trace_log import open_log
from trivet.records import FailedEvaluation, LabelledExample, Labels

LABEL_NAMES = ("adherent", "label", "gold", "labels.adherent")
"""Columns that are looked for, in this order; case is ignored."""

_TRUE = frozenset({"true", "1", "1.0", "yes", "y"})
_FALSE = frozenset({"false", "0", "0.0", "no", "n"})
_SUPPORTED = frozenset(
    {"supported", "right", "correct", "faithful", "adherent", "grounded", "pass"}
)
_UNSUPPORTED = frozenset(
    {"unsupported", "wrong", "incorrect", "unfaithful", "hallucinated", "ungrounded", "fail"}
)
# In the name of a column in which true says that an answer is not supported.
_ERRORS = re.compile("unsupported|wrong|incorrect|unfaithful|hallucinat|ungrounded")
_FORMS = "true or false, 1 or 0, right or wrong, supported or unsupported"
_SHOWN, _SHOWN_COLUMNS, _SHOWN_LETTERS = 3, 20, 40  # places, columns and letters in a message

_Row: TypeAlias = Mapping[str, list[Any]]  # values by the lower-case names of their columns


@dataclass(frozen=True)
class PlainRows:
    """The labelled rows of a file."""

    examples: Sequence[LabelledExample]  # with ``adherent`` as their only label
    report: SourceReport  # counts of rows read and left out
    column: str  # column of the labels, as in the file
    # label as written, and whether it says that the answer is supported: number of rows
    readings: Mapping[tuple[str, bool], int] = field(default_factory=dict)
    unreadable: int = 0  # rows left out because they have no question, contexts or response


def read_plain(
    source: str,
    label: str | None = None,
    split: str = "all",
    mapping: Mapped | None = None,
    format_: str | None = None,
    encoding: str | None = None,
) -> PlainRows:
    """Read the rows of a file that have a label and a response.

    Args:
        source: File, folder, or ``-`` for stdin, as `trivet.logs.trace_log.open_log` reads.
        label: Column of the labels, or a path into it; ``None`` looks for ``LABEL_NAMES``.
        split: ``all``, ``fit`` or ``dev`` (by the column ``group``, else by contexts), or a value
            of the column ``split``.
        mapping: Column names for some of our fields.
        format_: Format of the rows; ``None`` means by suffix.
        encoding: Encoding of text.

    Raises:
        DataError: The file cannot be read, has no such column, has no label in it, or a label that
            is neither; or there is no such split.
    """
    log = open_log(source, format_, encoding, is_mapped=bool(mapping))
    rows = list(log.rows())
    if not rows:
        raise DataError(f"{source}: there are no rows")
    read = list(read_rows(rows, Columns(mapping, metadata=())))
    cells = [values_by_name(row) for row in rows]
    column = _find_column(cells, label, source)
    labels = [_cell(row, column) for row in cells]
    places = [row.location for row in rows]
    _check_labels(labels, places, column, source)
    name = "stdin" if source == STDIN else Path(source).name.split(".", 1)[0]
    report = SourceReport(source=source)
    readings: Counter[tuple[str, bool]] = Counter()
    unreadable = 0

    def to_labelled(number: int, location: str) -> LabelledExample:
        nonlocal unreadable
        value, example = labels[number], read[number].example
        if value is None:
            raise RowError(f"no label in column {column!r}")
        if isinstance(example, FailedEvaluation):
            unreadable += 1
            raise RowError(example.code, example.message.removeprefix(f"{location}: "))
        if not example.response.strip():
            raise RowError("no response to judge")
        supported = bool(read_label(value, column))
        readings[str(value).strip(), supported] += 1
        group, own_split = (_cell(cells[number], name) for name in ("group", "split"))
        return LabelledExample(
            example=example,
            labels=Labels(adherent=supported),
            source=name,
            group=digest(*example.contexts) if group is None else str(group),
            split=None if own_split is None else str(own_split),
        )

    examples = report.collect(zip(places, range(len(rows)), strict=True), to_labelled)
    if not examples:
        raise DataError(
            f"{source}: none of the {len(rows)} rows can be measured: "
            f"{report.describe(report.dropped)}; write {_FORMS} into column {column!r}"
        )
    chosen = choose_split(examples, split, source)
    report.outside_split, report.kept = len(examples) - len(chosen), len(chosen)
    if not chosen:
        raise DataError(f"{source}: no labelled row is in split {split!r}")
    return PlainRows(chosen, report, column, readings, unreadable)


def read_label(value: Any, column: str = "label") -> bool | None:
    """Return whether a label says that an answer is supported; ``None`` if it says neither.

    In a column such as ``hallucinated``, true and 1 say that it is not.
    """
    text = str(value).strip().casefold()
    if text in _SUPPORTED or text in _UNSUPPORTED:
        return text in _SUPPORTED
    if text in _TRUE or text in _FALSE:
        return (text in _TRUE) != _is_inverse(column)
    return None


def _is_inverse(column: str) -> bool:
    """Tell whether a column names errors alone: ``is_wrong``, but not ``right_or_wrong``."""
    rest, errors = _ERRORS.subn("", column.casefold())
    return errors > 0 and not any(word in rest for word in _SUPPORTED)


def _find_column(cells: Sequence[_Row], label: str | None, source: str) -> str:
    """Return the first column that has a label in some row."""
    names = LABEL_NAMES if label is None else (label,)
    for name in names:
        if any(_cell(row, name) is not None for row in cells):
            return name
    if present := [name for name in names if any(_values(row, name) for row in cells)]:
        raise DataError(
            f"{source}: column {present[0]!r} is empty in all {len(cells)} rows; write {_FORMS} "
            "into it, or name another column with --label COLUMN"
        )
    columns = dict.fromkeys(name for row in cells for name in row)
    shown = ", ".join(name[:_SHOWN_LETTERS] for name in list(columns)[:_SHOWN_COLUMNS]) or "none"
    if label is None and any(isinstance(_cell(row, "labels"), Mapping) for row in cells):
        raise DataError(
            f"{source}: the labels are spans, not one for each answer; use --data jsonl:{source}"
        )
    raise DataError(
        f"{source}: no row has a column of labels (looked for {', '.join(names)}; found {shown}); "
        f"name it with --label COLUMN, and write {_FORMS} into it"
    )


def _check_labels(labels: Sequence[Any], places: Sequence[str], column: str, source: str) -> None:
    """Refuse labels that are neither, all at once."""
    bad = [
        f"{location} has {str(value)[:_SHOWN_LETTERS]!r}"
        for value, location in zip(labels, places, strict=True)
        if value is not None and read_label(value, column) is None
    ]
    if bad:
        more = f" and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
        raise DataError(
            f"{source}: column {column!r} has labels that are neither supported nor unsupported: "
            f"{', '.join(bad[:_SHOWN])}{more}; write {_FORMS}, and leave unknown ones empty"
        )


def _values(row: _Row, column: str) -> list[Any]:
    try:
        return values_at(row, column)
    except ExampleError:
        return []


def _cell(row: _Row, column: str) -> Any:
    """Return the value in a column, or at a path into one; ``None`` if it is missing or empty."""
    value = next(reversed(_values(row, column)), None)
    return None if isinstance(value, str) and not value.strip() else value
