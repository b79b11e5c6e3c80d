"""Reads rows of other tools as examples: their field names and their context objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trivet.data.logs.context_values import names_or_none, plain, read_contexts
from trivet.data.logs.rows import RowReader
from trivet.errors import ExampleError
from trivet.integrations.judge import Judge, Result, judge_many
from trivet.records import FailedEvaluation, RagExample


def read_row(fields: Mapping[str, Any], mapping: Mapping[str, str] | None = None) -> RagExample:
    """Read a row with the field names of any common tool, or those of ``mapping``.

    Raises:
        ExampleError: A field is missing or has a value of the wrong type.
        DataError: ``mapping`` names an unknown field.
    """
    found = RowReader(mapping).read(fields)
    if isinstance(found, FailedEvaluation):
        message = found.message.removeprefix("row 1: ")
        raise ExampleError(f"the row {message}", code=found.code)
    return found


def judge_rows(
    judge: Judge, rows: Iterable[Mapping[str, Any]], mapping: Mapping[str, str] | None = None
) -> list[Result]:
    """Evaluate rows together, with the arguments of `read_row`; an unreadable row is a failure."""
    read: list[RagExample | FailedEvaluation] = []
    for row in rows:
        try:
            read.append(read_row(row, mapping))
        except ExampleError as error:
            read.append(FailedEvaluation.of(error))
    results = iter(judge_many(judge, [row for row in read if isinstance(row, RagExample)]))
    return [next(results) if isinstance(row, RagExample) else row for row in read]


def example(question: Any, contexts: Any, response: Any) -> RagExample:
    """Return an example from a tool's values; ``None`` is empty, other types are refused."""
    texts = {"question": question, "response": response}
    for name, value in texts.items():
        if value is not None and not isinstance(value, str):
            raise ExampleError(
                f"{name} is a value of type {type(value).__name__}, not a string", code="bad_field"
            )
    passages, names = read_contexts(plain(contexts))
    named = names_or_none(names)
    return RagExample(question or "", passages, response or "", context_names=named)
