"""Contexts of a row: strings, objects with a text, or a list written as text."""

from __future__ import annotations

import datetime
import decimal
import itertools
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from trivet.errors import ExampleError
from trivet.interface import replace_surrogates
from trivet.logs.written_lists import listed
from trivet.records import ContextName, FailedEvaluation, RagExample

CONTEXT_TEXT_NAMES = ("text", "page_content", "content", "passage")
"""Names of the text in a context that is an object."""

_TEXT_ATTRIBUTES = ("page_content", "content", "text", "context")
# of the objects of LangChain, Haystack, LlamaIndex and DeepEval

CONTEXT_ID_NAMES = ("id", "doc_id", "document_id", "chunk_id")
"""Names of its id; the first that it has counts. Its title is under ``title``."""

_INSIDE = ("kwargs", "data", "document", "node", "content")
# members of an object that hold the passage itself, as tools serialize theirs

_NESTED_TEXT_NAMES = (*CONTEXT_TEXT_NAMES, "pagecontent")
_NESTED_ID_NAMES = (*CONTEXT_ID_NAMES, "id_", "node_id")

TEXT_PARTS = frozenset({"text", "input_text", "output_text"})

Contexts = tuple[tuple[str, ...], tuple[ContextName, ...]]
"""Texts, and the name of each."""

_NO_NAME = ContextName()


def plain(value: Any) -> Any:
    """Return a value of a DataFrame or of another tool as Python's own types.

    Arrays become lists, NaN and the like ``None``, and objects with a text dictionaries.
    """
    if value is None or isinstance(value, str | bytes | int | Mapping):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if type(value).__name__ in ("NAType", "NaTType"):  # pandas: neither equals itself
        return None
    if hasattr(value, "tolist"):  # arrays and numbers of numpy, columns of pandas
        return plain(value.tolist())
    return [_text_object(item) for item in value] if isinstance(value, Iterable) else value


def _text_object(item: Any) -> Any:
    if isinstance(item, str | Mapping):
        return item
    texts = (getattr(item, name, None) for name in _TEXT_ATTRIBUTES)
    text = next((text for text in texts if isinstance(text, str)), None)
    if text is None:
        return item
    named = {name: getattr(item, name, None) for name in (*_NESTED_ID_NAMES, "title", "metadata")}
    return {"text": text} | {name: value for name, value in named.items() if value is not None}


def as_written(value: Any) -> Any:
    """Return a number or a date of a table's cell as text, as in the same table written as CSV."""
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat().replace("T", " ")
    if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        return value
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
    return str(int(value) if is_whole else value)


def as_passages(contexts: object) -> Contexts:
    """Return the texts of contexts and their names; one string is one passage.

    A context is a string, or an object with its text: a dictionary, or a document of LangChain,
    LlamaIndex, Haystack or DeepEval. A value without text stays as it is.

    Raises:
        ExampleError: They are neither a list nor a string, or a dictionary has no text.
    """
    if isinstance(contexts, str):
        return (contexts,), ()
    is_text = isinstance(contexts, bytes | Mapping) or _text_object(contexts) is not contexts
    if is_text or not isinstance(contexts, Iterable):
        raise ExampleError(
            f"contexts must be a list of passages, not {type(contexts).__name__}; "
            "write contexts=[text]"
        )
    pairs = [
        _context(context, index) if isinstance(context, Mapping) else (context, _NO_NAME)
        for index, context in enumerate(map(_text_object, contexts))
    ]
    return tuple(text for text, _ in pairs), names_or_none(name for _, name in pairs)


def named_example(
    question: str,
    contexts: object,
    response: str,
    id: str | None = None,  # noqa: A002
) -> RagExample:
    """Return an example of contexts of any kind; errors as of `as_passages`."""
    texts, names = as_passages(contexts)
    return RagExample(question, texts, response, id, context_names=names)


def request_record(example: RagExample) -> dict[str, Any]:
    """Return an example as a request to a server holds it.

    Raises:
        ExampleError: A text is not a string, or the example has its own sentences.
    """
    if example.context_sentences is not None or example.response_sentences is not None:
        message = "a request cannot hold own sentences; omit them, or use trivet.Evaluator"
        raise ExampleError(message, code="own_sentences")
    record = {"id": example.id, "question": example.question, "response": example.response}
    contexts = {f"contexts[{number}]": text for number, text in enumerate(example.contexts)}
    for name, text in (record | contexts).items():
        if not isinstance(text, str) and name != "id":
            raise ExampleError(f"{name} must be a string, not {type(text).__name__}")
    pairs = itertools.zip_longest(example.contexts, example.context_names, fillvalue=_NO_NAME)
    passages = [{"text": text, **name._asdict()} if any(name) else text for text, name in pairs]
    return record | {"contexts": passages}


def named_request(
    question: str,
    contexts: object,
    response: str,
    id: str | None = None,  # noqa: A002
) -> dict[str, Any]:
    """Return a request for an example of contexts of any kind."""
    return request_record(named_example(question, contexts, response, id))


def request_or_failure(example: RagExample | FailedEvaluation) -> dict[str, Any] | FailedEvaluation:
    """Return what `request_record` does, or the failure to return instead."""
    try:
        return example if isinstance(example, FailedEvaluation) else request_record(example)
    except ExampleError as error:
        return FailedEvaluation.of(error, example.id)


def request_body(record: Mapping[str, Any]) -> bytes:
    """Return a record as JSON in UTF-8, which cannot hold lone surrogates: they become U+FFFD."""
    text = json.dumps(record, ensure_ascii=False, allow_nan=False)
    return replace_surrogates(text)[0].encode()


def names_or_none(names: Iterable[ContextName]) -> tuple[ContextName, ...]:
    """Return the names of contexts as an example holds them: empty if none has one."""
    known = tuple(names)
    return known if any(any(name) for name in known) else ()


def read_contexts(value: Any) -> Contexts:
    """Return the passages in a value: a list of strings or of objects with a text, or one string.

    A string may contain the list as JSON or Python text, because a cell of a CSV file is text.

    Raises:
        ExampleError: It is none of these; the code is ``bad_field``.
    """
    value = as_written(value)
    if isinstance(value, str):
        value = listed(value, str | Mapping)
    if value is None or value == "":
        return (), ()
    if isinstance(value, str):
        return (value,), (_NO_NAME,)
    if not isinstance(value, list | tuple):
        raise ExampleError(
            f"contexts is {kind_of(value)}, not a list of strings or one string", code="bad_field"
        )
    # Vector stores return a list for each query.
    nested = [item if isinstance(joined_parts(item), list | tuple) else [item] for item in value]
    pairs = [_context(item, index) for index, item in enumerate(itertools.chain(*nested))]
    return tuple(text for text, _ in pairs), tuple(name for _, name in pairs)


def read_ids(value: Any, contexts: int) -> tuple[str | None, ...]:
    """Return the ids of passages from a list, or a list written as text, in their own column.

    Raises:
        ExampleError: It is not a list with an id for each passage; the code is ``bad_field``.
    """
    if isinstance(value, str):
        value = listed(value, str | int | float | None) if value else None
    if value is None:
        return (None,) * contexts
    if not isinstance(value, list | tuple) or len(value) != contexts:
        kind = f"a list of {len(value)}" if isinstance(value, list | tuple) else kind_of(value)
        raise ExampleError(
            f"context_ids is {kind}, not a list with one id for each of {contexts} contexts; "
            "leave it out with --map context_ids=NONE",
            code="bad_field",
        )
    return tuple(_name(item) for item in value)


def joined_parts(value: Any) -> Any:
    """Return the text of a message's parts (``[{"type": "text", "text": ...}]``), or the value."""
    if not isinstance(value, list | tuple) or not value:
        return value
    texts = [
        item["text"]
        for item in value
        if isinstance(item, Mapping)
        and item.get("type") in TEXT_PARTS
        and isinstance(item.get("text"), str)
    ]
    return "\n".join(texts) if len(texts) == len(value) else value


def passage(item: Any, *, nested: bool = False) -> tuple[str | None, ContextName]:
    """Return the text and the name of a passage: a string, or an object that holds them.

    Its metadata may hold the name. ``nested`` tells whether the object is that of a tool, with the
    names of its own.
    """
    if isinstance(item, list | tuple):
        item = joined_parts(item)
    if isinstance(item, str):
        return item, _NO_NAME
    if not isinstance(item, Mapping):
        return None, _NO_NAME
    members = {name.lower(): value for name, value in item.items() if isinstance(name, str)}
    text_names = _NESTED_TEXT_NAMES if nested else CONTEXT_TEXT_NAMES
    texts = (members[name] for name in text_names if isinstance(members.get(name), str))
    text, outer_name = next(texts, None), _own_name(members, nested)
    inner = next(
        (members[name] for name in _INSIDE if isinstance(members.get(name), Mapping)), None
    )
    if text is not None or inner is None:
        return text, outer_name
    text, name = passage(inner, nested=True)
    return text, ContextName(name.id or outer_name.id, name.title or outer_name.title)


def _own_name(members: Mapping[str, Any], nested: bool) -> ContextName:
    """Return the name that the members of an object, or of its metadata, give it."""
    metadata = members.get("metadata")
    places = (members, metadata) if isinstance(metadata, Mapping) else (members,)
    id_names = _NESTED_ID_NAMES if nested else CONTEXT_ID_NAMES
    ids = (_name(holder.get(name)) for holder in places for name in id_names)
    titles = (_name(holder.get("title")) for holder in places)
    return ContextName(next(filter(None, ids), None), next(filter(None, titles), None))


def _context(item: Any, index: int) -> tuple[str, ContextName]:
    text, name = passage(item)
    if text is not None:
        return text, name
    raise ExampleError(
        f"contexts[{index}] is {kind_of(item)}; it must be a string, or an object with its text "
        f"under {', '.join(CONTEXT_TEXT_NAMES)}",
        code="bad_field",
    )


def _name(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return str(value)


def kind_of(value: Any) -> str:
    """Name a value's type for error messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    names = {str: "a string", int: "a number", float: "a number", list: "a list", dict: "an object"}
    known = (name for kind, name in names.items() if isinstance(value, kind))
    return next(known, f"a value of type {type(value).__name__}")
