"""Chat messages as examples: one for each answer of the assistant that is judged.

The question of an answer is the user's last message before it, followed by the earlier turns, the
latest first: a question that is too long for a window loses its end, hence the oldest turns. Its
contexts are the results of tools before it, or the system's messages where there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from trivet.errors import ExampleError
from trivet.logs.context_values import (
    TEXT_PARTS,
    as_passages,
    joined_parts,
    kind_of,
    names_or_none,
)
from trivet.records import ContextName, RagExample

Turns = Literal["last", "all"]
"""Answers that are judged: the last one, or each."""

Role = Literal["user", "assistant", "system", "tool", "call"]
_ROLES: Mapping[str, Role] = {
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "ai", "model", "gpt"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("tool", "function", "observation", "function_response"), "tool"),
    "function_call": "call",
}
_ROLE_KEYS, _TEXT_KEYS = ("role", "type", "from"), ("content", "value")
_CALL_KEYS = ("tool_calls", "function_call")
_SHOWN_LETTERS = 40


class Turn(NamedTuple):
    """An answer of the assistant, as an example."""

    message: int  # its position among the messages, from 0
    example: RagExample


class _Message(NamedTuple):
    role: Role
    text: str
    name: str | None  # of a tool


def read_turns(
    messages: object,
    contexts: Sequence[Any] | str | None = None,
    turns: Turns = "last",
    id: str | None = None,  # noqa: A002
) -> list[Turn]:
    """Return the judged answers of a conversation, in order.

    Args:
        messages: Objects with ``role`` and ``content`` as of OpenAI's chat; LangChain's ``type``
            and ShareGPT's ``from`` and ``value`` are read as well.
        contexts: Passages of each answer, as of `as_passages`, in place of the messages' own.
        turns: Whether the last answer is judged, or each. A message of the assistant without text,
            such as a call of a tool, is not an answer.
        id: Name of the conversation. Each example has it; of several, with the position of its
            answer: ``c7-messages[3]``.

    Raises:
        ExampleError: The messages cannot be read, or none is an answer; the message names the
            culprit, such as ``messages[2].role``.
        ValueError: ``turns`` is unknown.
    """
    if turns not in ("last", "all"):
        raise ValueError(f"turns is {turns!r}; choose last or all")
    read = _read(messages)
    answers = [
        n for n, message in enumerate(read) if message.role == "assistant" and message.text.strip()
    ]
    if not answers:
        raise ExampleError(
            f"none of {len(read)} messages is an answer: a message of role assistant with text",
            code="missing_field",
        )
    passages = None if contexts is None else as_passages(contexts)
    judged = []
    for answer in answers if turns == "all" else answers[-1:]:
        before = read[:answer]
        texts, names = _contexts(before) if passages is None else passages
        name = id
        if turns == "all":
            name = "-".join(filter(None, (id, f"messages[{answer}]")))
        example = RagExample(_question(before), texts, read[answer].text, name, context_names=names)
        judged.append(Turn(answer, example))
    return judged


def _question(before: Sequence[_Message]) -> str:
    """Return the last question and the earlier turns as one question."""
    asked = max((n for n, message in enumerate(before) if message.role == "user"), default=None)
    lines = [] if asked is None else [before[asked].text]
    lines += [
        f"{message.role}: {message.text}"
        for n, message in reversed(list(enumerate(before)))
        if message.role in ("user", "assistant") and n != asked and message.text.strip()
    ]
    return "\n".join(lines)


def _contexts(before: Sequence[_Message]) -> tuple[tuple[str, ...], tuple[ContextName, ...]]:
    told = [
        message for message in before if message.role in ("system", "tool") and message.text.strip()
    ]
    shown = [message for message in told if message.role == "tool"] or told
    names = (ContextName(message.name or message.role) for message in shown)
    return tuple(message.text for message in shown), names_or_none(names)


def _read(messages: object) -> list[_Message]:
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        raise ExampleError(
            f"messages is {kind_of(messages)}, not a list of objects with role and content",
            code="bad_field",
        )
    called: dict[str, str] = {}  # name of the function by the id of its call
    read = []
    for number, message in enumerate(messages):
        path = f"messages[{number}]"
        if not isinstance(message, Mapping):
            raise ExampleError(f"{path} is {kind_of(message)}, not an object", code="bad_field")
        role = _role(message, path)
        name = message.get("name") if role == "tool" else None
        call = message.get("tool_call_id")
        if isinstance(call, str):
            if not call:
                raise ExampleError(f"{path}.tool_call_id is empty", code="bad_field")
            name = name or called.get(call, call)
        called |= _calls(message)
        text = _text(message, path)
        is_empty = all(message.get(key) is None for key in _TEXT_KEYS)
        if role == "assistant" and is_empty and not any(map(message.get, _CALL_KEYS)):
            raise ExampleError(
                f"{path} has no text and calls no tool: it is not a response", code="missing_field"
            )
        read.append(_Message(role, text, name if isinstance(name, str) else None))
    return read


def _role(message: Mapping[str, Any], path: str) -> Role:
    key = next((key for key in _ROLE_KEYS if key in message), None)
    if key is None:
        raise ExampleError(f"{path} has no role", code="missing_field")
    value = message[key]
    role = _ROLES.get(value) if isinstance(value, str) else None
    if role is None:
        shown = repr(value[:_SHOWN_LETTERS]) if isinstance(value, str) else kind_of(value)
        raise ExampleError(f"{path}.{key} is {shown}; known: {', '.join(_ROLES)}", code="bad_field")
    return role


def _text(message: Mapping[str, Any], path: str) -> str:
    """Return the text of a message; parts of other kinds than text are refused by name."""
    key = next((key for key in _TEXT_KEYS if key in message), _TEXT_KEYS[0])
    value = joined_parts(message.get(key))
    if value is None or value == []:
        return ""
    if isinstance(value, str):
        return value
    for number, part in enumerate(value) if isinstance(value, list | tuple) else ():
        kind = part.get("type", "text") if isinstance(part, Mapping) else None
        if isinstance(kind, str) and kind not in TEXT_PARTS:
            raise ExampleError(
                f"{path}.{key}[{number}] is a part of type {kind[:_SHOWN_LETTERS]}; only text is "
                "judged: leave it out, or write it as text",
                code="bad_field",
            )
        if kind is None or not isinstance(part.get("text"), str):
            raise ExampleError(f"{path}.{key}[{number}] has no text", code="bad_field")
    raise ExampleError(f"{path}.{key} is {kind_of(value)}, not a text", code="bad_field")


def _calls(message: Mapping[str, Any]) -> dict[str, str]:
    """Return the name of each function that a message calls, by the id of its call."""
    called = {}
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list | tuple) else ():
        if isinstance(call, Mapping):
            function = call.get("function")
            name = function.get("name") if isinstance(function, Mapping) else call.get("name")
            if isinstance(call.get("id"), str) and isinstance(name, str):
                called[call["id"]] = name
    return called
