"""Unlabelled rows to be judged: JSON lines, under the field names of the common tools.

Standard library only. A row that cannot be read becomes a
:class:`~trivet.records.FailedEvaluation` in its place, with its line number; the rest is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trivet.records import DataError, ExampleError, FailedEvaluation, RagExample

FIELD_NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("id",),
    "question": ("question", "user_input", "query", "input"),
    "contexts": ("contexts", "retrieved_contexts", "documents", "context", "passages"),
    "response": ("response", "answer", "actual_output", "output"),
}
"""Our field names and what other tools call them; upper and lower case are one."""

CONTEXT_TEXT_NAMES = ("text", "page_content", "content", "passage")
"""Where the text stands in a context that is an object."""


def read_rag_examples(
    lines: Iterable[bytes | str], mapping: Mapping[str, str] | None = None
) -> Iterator[RagExample | FailedEvaluation]:
    """Read examples from JSON lines, lazily and in order.

    A row must have a question, contexts and a response by name; ``null`` or an empty string stands
    for "there is none". Contexts are a list of strings or of objects that hold a text, or one
    string. A row without an id is named after its line: ``line-3``. Blank lines are skipped.

    Args:
        lines: Lines of a file, as bytes (UTF-8) or strings.
        mapping: For each of our field names that is given, the one name that counts in the rows,
            such as ``{"question": "prompt"}``.

    Returns:
        One example, or one failure, for each line that is not blank. The codes are
        ``malformed_line``, ``missing_field``, ``ambiguous_field`` and ``bad_field``.

    Raises:
        DataError: ``mapping`` names a field that we do not have.
    """
    names = dict(FIELD_NAMES)
    for ours, theirs in (mapping or {}).items():
        if ours not in FIELD_NAMES:
            raise DataError(f"no field {ours!r} to map {theirs!r} to; ours: {', '.join(names)}")
        names[ours] = (theirs,)
    return _read(lines, names)


def _read(
    lines: Iterable[bytes | str], names: Mapping[str, tuple[str, ...]]
) -> Iterator[RagExample | FailedEvaluation]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        name: str | None = None
        try:
            row = _parse(line)
            name = _id(_field(row, "id", names["id"]), number)
            yield RagExample(
                question=_text(_required(row, "question", names), "question"),
                contexts=_contexts(_required(row, "contexts", names)),
                response=_text(_required(row, "response", names), "response"),
                id=name,
            )
        except ExampleError as error:
            yield FailedEvaluation(id=name, code=error.code, message=f"line {number}: {error}")


class _Missing:
    """Stands for a field that a row does not have, where ``None`` is a value."""


_MISSING = _Missing()


def _parse(line: bytes | str) -> dict[str, list[Any]]:
    """Return the values of each field by its lower-cased name; a name may occur more than once."""
    try:
        text = line.decode("utf-8-sig") if isinstance(line, bytes) else line.lstrip("\ufeff")
        row = json.loads(text, object_pairs_hook=_Pairs)
    except UnicodeDecodeError as error:
        raise ExampleError(f"is not UTF-8 ({error})", code="malformed_line") from error
    except (ValueError, RecursionError) as error:
        raise ExampleError(f"is not JSON ({error})", code="malformed_line") from error
    if not isinstance(row, _Pairs):
        raise ExampleError("is not a JSON object", code="malformed_line")
    fields: dict[str, list[Any]] = {}
    for name, value in row:
        fields.setdefault(name.lower(), []).append(value)
    return fields


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as its pairs, so that a name that occurs twice is seen."""


def _field(row: Mapping[str, list[Any]], ours: str, names: Iterable[str]) -> Any:
    present = [name for name in names if name.lower() in row]
    values = [value for name in present for value in row[name.lower()]]
    if not values:
        return _MISSING
    # A tool that writes null under one name and the value under another has said it once.
    values = [value for value in values if value is not None] or [None]
    if any(value != values[0] for value in values[1:]):
        raise ExampleError(
            f"holds several values for {ours} (under {', '.join(dict.fromkeys(present))}); "
            f"keep one, or choose a name with --map {ours}=NAME",
            code="ambiguous_field",
        )
    return values[0]


def _required(row: Mapping[str, list[Any]], ours: str, names: Mapping[str, tuple[str, ...]]) -> Any:
    value = _field(row, ours, names[ours])
    if value is _MISSING:
        raise ExampleError(
            f"has no {ours} (looked for {', '.join(names[ours])}; found {', '.join(row) or 'none'})"
            f"; name the field with --map {ours}=NAME",
            code="missing_field",
        )
    return value


def _id(value: Any, number: int) -> str:
    if value is None or value is _MISSING:
        return f"line-{number}"
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ExampleError("id is neither a string nor a number", code="bad_field")
    return str(value)


def _text(value: Any, ours: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ExampleError(f"{ours} is {_kind(value)}, not a string", code="bad_field")
    return value


def _contexts(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or isinstance(value, _Pairs):
        raise ExampleError(
            f"contexts is {_kind(value)}, not a list of strings or one string", code="bad_field"
        )
    return tuple(_context(item, index) for index, item in enumerate(value))


def _context(item: Any, index: int) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, _Pairs):
        fields = {name.lower(): value for name, value in item}
        texts = [fields[name] for name in CONTEXT_TEXT_NAMES if isinstance(fields.get(name), str)]
        if texts:
            return str(texts[0])
    raise ExampleError(
        f"contexts[{index}] is {_kind(item)}; it must be a string, or an object with its text "
        f"under {', '.join(CONTEXT_TEXT_NAMES)}",
        code="bad_field",
    )


def _kind(value: Any) -> str:
    """Name a JSON value's type for a person."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, _Pairs):
        return "an object"
    return {str: "a string", int: "a number", float: "a number", list: "a list"}[type(value)]
