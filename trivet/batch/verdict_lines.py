"""What one line of a verdict file holds.

A verdict::

    {"row": 7, "id": "q7", "faithfulness": 0.91, ...,    `Evaluation.to_dict()`
     "context_ids": ["doc-3", null],                     where the contexts brought ids
     "metadata": {"model": "m-2"},                       where the row has such columns
     "texts": {"question", "contexts", "response"}}      where the run was asked for them

A row without a verdict::

    {"row": 8, "id": "q8", "error": {"code", "message", "line"}, "metadata": {...}}

``row`` counts the rows of the input from 1; ``line`` is its line in the file, where it has lines.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from trivet.data.logs.column_mapping import LogRow
from trivet.records import DataError, Evaluation, FailedEvaluation, RagExample, to_json_text

TEXT_FIELDS = ("question", "contexts", "response")
FIELDS = (
    *(field.name for field in dataclasses.fields(Evaluation)),
    "context_ids",
    "metadata",
    "texts",
)
"""What ``--fields`` may name; ``row`` and ``error`` stand in every line."""


def check_fields(fields: Sequence[str]) -> None:
    """Refuse fields that no verdict has.

    Raises:
        DataError: It names them, and those that there are.
    """
    unknown = [name for name in fields if name not in FIELDS]
    if unknown:
        raise DataError(
            f"no field {', '.join(unknown)} in a verdict; there are {', '.join(FIELDS)}"
        )


def verdict_record(
    row: LogRow,
    result: Evaluation | FailedEvaluation,
    *,
    fields: Sequence[str] | None = None,
    texts: bool = False,
) -> dict[str, Any]:
    """Return what stands in the line of one row.

    Args:
        row: The row as it was read.
        result: What was found of it.
        fields: The fields that are kept of a verdict; ``None`` keeps all.
        texts: Whether the row's texts come with it.
    """
    record: dict[str, Any] = {"row": row.number}
    if isinstance(result, Evaluation):
        record |= result.to_dict()
    else:
        record["id"] = result.id
        error: dict[str, Any] = {"code": result.code, "message": result.message}
        if row.line is not None:
            error["line"] = row.line
        record["error"] = error
    if row.context_ids is not None:
        record["context_ids"] = list(row.context_ids)
    if row.metadata:
        record["metadata"] = dict(row.metadata)
    if texts and isinstance(row.example, RagExample):
        record["texts"] = {name: getattr(row.example, name) for name in TEXT_FIELDS}
    if fields is None:
        return record
    return {name: value for name, value in record.items() if name in ("row", "error", *fields)}


def to_line(record: dict[str, Any]) -> bytes:
    """Return a record as one line of JSON in UTF-8.

    Raises:
        ValueError: A number is NaN or infinite.
    """
    return to_json_text(record).encode() + b"\n"
