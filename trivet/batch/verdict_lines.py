"""Lines of a verdict file.

A verdict::

    {"row": 7, "id": "q7", "faithfulness": 0.91, ...,    `Evaluation.to_dict()`
     "context_ids": ["doc-3", null],                     if the contexts have ids
     "metadata": {"model": "m-2"},                       if the row has such columns
     "texts": {"question", "contexts", "response"}}      if the run writes texts

A row without a verdict::

    {"row": 8, "id": "q8", "error": {"code", "message", "line"}, "metadata": {...}}

``row`` counts the rows of the input from 1; ``line`` is the line in its file, if that has lines.
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
"""Names that ``--fields`` accepts; ``row`` and ``error`` are in every line."""


def check_fields(fields: Sequence[str]) -> None:
    """Check that verdicts have all the fields.

    Raises:
        DataError: There is no such field.
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
    """Return the content of one line.

    Args:
        row: The row.
        result: Its verdict, or why it has none.
        fields: Fields of a verdict to keep; ``None`` means all.
        texts: Whether to include the row's texts.
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
