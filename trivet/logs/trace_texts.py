"""Questions, answers and documents inside the inputs and outputs that tools record.

These are plain text, JSON, chat messages, or objects of LangChain, under names that applications
choose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trivet.errors import ExampleError
from trivet.logs.context_values import passage
from trivet.logs.paths import follow, parse_nested
from trivet.logs.shapes import SHAPES
from trivet.logs.trace_examples import Document

_QUESTION = ("question", "query", "input", "user_input", "query_str", "messages", "prompt")
_ANSWER = (
    *("answer", "response", "output", "result", "text", "generation", "completion"),
    *("output_text", "replies", "generations", "messages", "message", "choices"),
)
_DOCUMENTS = (
    *("documents", "docs", "source_documents", "chunks", "nodes", "results", "matches"),
    *("context", "contexts", "output"),
)
# A chat's system message is not a document.
_PLACES = (
    *("contexts", "retrieved_contexts", "documents", "context"),
    *(path for s in SHAPES.values() for path in s.fields.get("contexts", ()) if "=" not in path),
)
_INSIDE = ("kwargs", "data", "document", "node")  # members that hold the object itself
_USER = frozenset({"user", "human", "humanmessage"})
_ASSISTANT = frozenset({"assistant", "ai", "model", "aimessage", "aimessagechunk"})
_DEEPEST = 8  # levels of nesting that are searched


def question_in(value: Any) -> str | None:
    """Return the question in an input, or the last one of a conversation."""
    return _find(value, _QUESTION, _USER, _DEEPEST)


def answer_in(value: Any) -> str | None:
    """Return the answer in an output, or the last one of a conversation."""
    return _find(value, _ANSWER, _ASSISTANT, _DEEPEST)


def documents_in(value: Any) -> tuple[Document, ...]:
    """Return the documents in the output of a retriever: texts, or objects with a text."""
    value = parse_nested(value)
    for name in _DOCUMENTS:
        if isinstance(value, Mapping) and name in value:
            value = parse_nested(value[name])
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    passages = (passage(item, nested=True) for item in value)
    return tuple(Document(text, name.id or name.title) for text, name in passages)


def documents_among(asked: Any, returned: Any, metadata: Any = None) -> tuple[Document, ...]:
    """Return the documents that an application recorded among its own input and output.

    They are where a log of the same application would have them (`trivet.logs.shapes`).
    """
    asked, returned, metadata = map(parse_nested, (asked, returned, metadata))
    record = {"input": asked, "output": returned, "inputs": asked, "outputs": returned}
    record["metadata"] = metadata
    for value in (asked, returned):
        record |= value if isinstance(value, Mapping) else {}
    for path in _PLACES:
        try:
            value = parse_nested(follow(record, path))
        except ExampleError:
            continue
        if isinstance(value, list | tuple) and value:
            return documents_in(value)
    return ()


def _find(value: Any, names: Sequence[str], roles: frozenset[str], deepest: int) -> str | None:
    value = parse_nested(value)
    if isinstance(value, str):
        return value if value.strip() else None
    if not deepest or not isinstance(value, Mapping | list | tuple):
        return None
    if isinstance(value, Mapping):
        known = [*(value[name] for name in names if name in value)]
        known += [value[name] for name in ("content", "parts", *_INSIDE) if name in value]
        known += list(value.values()) if len(value) == 1 else []
        texts = (_find(member, names, roles, deepest - 1) for member in known)
        return next((text for text in texts if text is not None), None)
    messages = [item for item in value if _role(item)]
    if messages:
        messages = [item for item in messages if _role(item) in roles]
        return _find(messages[-1], names, roles, deepest - 1) if messages else None
    if all(isinstance(item, Mapping) and item.get("type") == "text" for item in value):
        parts = [str(item.get("text", item.get("content", ""))) for item in value]
        return "\n".join(parts).strip() or None
    return _find(value[-1], names, roles, deepest - 1) if value else None


def _role(item: Any) -> str | None:
    """Return the role of a chat message in lower case; ``None`` if it is none."""
    if not isinstance(item, Mapping):
        return None
    kind = item.get("type")
    if isinstance(kind, str) and kind.lower() in _USER | _ASSISTANT | {"system", "tool"}:
        return kind.lower()
    path = item.get("id")  # LangChain writes a message with the path of its class
    if kind == "constructor" and isinstance(path, list) and path:
        return str(path[-1]).lower()
    role = item.get("role")
    return role.lower() if isinstance(role, str) else None
