"""Rows of other tools as examples: their field names, and contexts that are objects of theirs."""

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
"""Where objects of LangChain, Haystack, LlamaIndex and DeepEval hold their text."""


def read_row(fields: Mapping[str, Any], mapping: Mapping[str, str] | None = None) -> RagExample:
    """Read a row under the field names of the common tools.

    Args:
        fields: Names and values: a question, contexts and a response, and perhaps an id.
        mapping: For each of our field names that is given, the one name that counts, such as
            ``{"question": "prompt"}``.

    Raises:
        ExampleError: A field is missing, or holds a value of another type.
        DataError: ``mapping`` names a field that we do not have.
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
    """Judge rows together; one that cannot be read fails in its place.

    Raises:
        DataError: ``mapping`` names a field that we do not have.
    """
    read = [_read_or_fail(row, mapping) for row in rows]
    judged = iter(judge_many(judge, [row for row in read if isinstance(row, RagExample)]))
    return [next(judged) if isinstance(row, RagExample) else row for row in read]


def _read_or_fail(
    row: Mapping[str, Any], mapping: Mapping[str, str] | None
) -> RagExample | FailedEvaluation:
    try:
        return read_row(row, mapping)
    except ExampleError as error:
        return FailedEvaluation.of(error)


def example(question: Any, contexts: Any, response: Any) -> RagExample:
    """Return an example of values as a tool holds them; ``None`` stands for "there is none".

    Raises:
        ExampleError: One is of another type.
    """
    texts = {"question": question, "response": response}
    for name, value in texts.items():
        if value is not None and not isinstance(value, str):
            raise ExampleError(
                f"{name} is a value of type {type(value).__name__}, not a string", code="bad_field"
            )
    return RagExample(question or "", read_contexts(_plain(contexts))[0], response or "")


def _plain(value: Any) -> Any:
    """Return a value with lists for arrays, and dictionaries for objects that hold a text."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return value
    return [_text_object(item) for item in value]


def _text_object(item: Any) -> Any:
    if isinstance(item, str | Mapping):
        return item
    texts = (getattr(item, name, None) for name in _TEXTS)
    text = next((text for text in texts if isinstance(text, str)), None)
    return item if text is None else {"text": text}
