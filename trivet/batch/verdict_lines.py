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

from trivet.errors import DataError
from trivet.logs.column_mapping import LogRow
from trivet.records import Evaluation, FailedEvaluation, RagExample, to_json_text

TEXT_FIELDS = ("question", "contexts", "response")
_EVALUATION = tuple(field.name for field in dataclasses.fields(Evaluation))
FIELDS = (*_EVALUATION, "context_ids", "metadata", "texts")
"""Names that ``--fields`` accepts; ``row`` and ``error`` are in every line."""


def check_fields(fields: Sequence[str]) -> None:
    """Raise ``DataError`` if verdicts have no such field."""
    unknown = [name for name in fields if name not in FIELDS]
    if unknown:
        names = ", ".join(unknown)
        raise DataError(f"no field {names} in a verdict; there are {', '.join(FIELDS)}")


def verdict_line(
    row: LogRow,
    result: Evaluation | FailedEvaluation,
    *,
    fields: Sequence[str] | None = None,
    texts: bool = False,
) -> bytes:
    """Return one line of JSON in UTF-8, with the chosen fields of the verdict or all."""
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
    if fields is not None:
        kept = ("row", "error", *fields)
        record = {name: value for name, value in record.items() if name in kept}
    return to_json_text(record).encode() + b"\n"
