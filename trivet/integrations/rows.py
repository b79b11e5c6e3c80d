"""Reads rows of other tools as examples: their field names and their context objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from trivet.data.logs.column_mapping import Columns
from trivet.data.logs.context_values import read_contexts
from trivet.data.logs.log import SourceRow
from trivet.integrations.judge import Judge, Result, judge_many
from trivet.records import ExampleError, FailedEvaluation, RagExample

_TEXTS = ("page_content", "content", "text", "context")
"""Text attributes of the objects of LangChain, Haystack, LlamaIndex and DeepEval."""


def read_row(fields: Mapping[str, Any], mapping: Mapping[str, str] | None = None) -> RagExample:
    """Read a row with the field names of any common tool, or those of ``mapping``.

    Raises:
        ExampleError: A field is missing or has a value of the wrong type.
        DataError: ``mapping`` names an unknown field.
    """
    values = [(name, _plain(value)) for name, value in fields.items()]
    row = Columns(mapping, metadata=(), bad_unicode="replace").read(SourceRow(1, "", None, values))
    if isinstance(row.example, FailedEvaluation):
        message = row.example.message.removeprefix(": ").replace("--map ", "mapping: ")
        raise ExampleError(f"the row {message}", code=row.example.code)
    return replace(row.example, id=row.example.id or None)


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
    return RagExample(question or "", read_contexts(_plain(contexts))[0], response or "")


def _plain(value: Any) -> Any:
    """Convert an array to a list, and objects with a text in it to dictionaries."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return value
    return [_text_object(item) for item in value]


def _text_object(item: Any) -> Any:
    if isinstance(item, str | Mapping):
        return item
    texts = (getattr(item, name, None) for name in _TEXTS)
    text = next((text for text in texts if isinstance(text, str)), None)
    return item if text is None else {"text": text}
