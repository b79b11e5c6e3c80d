"""Dotted paths to values inside nested rows, such as ``outputs.documents[].page_content``.

Also the paths of the texts in a row, and which of them a field may be, for messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trivet.errors import ExampleError

MISSING: Any = object()
"""Result of a path that leads nowhere."""

_NAME = r'"[^"]+"|[^.\[\]"]+'
_STEP = re.compile(rf"\[(-?[0-9]*)\]|\[([a-z_|]+)=([^\]]*)\]|({_NAME})")
_FIRST = re.compile(_NAME)


def is_path(name: str) -> bool:
    """Tell whether a name of a column leads into its value."""
    return "." in name or "[" in name


def first_name(path: str) -> str:
    """Return the column that a path begins with."""
    first = _FIRST.match(path)
    return path if first is None else first[0]


def follow(value: Any, path: str) -> Any:
    """Return the value at a path below ``value``, or ``MISSING``.

    ``name`` takes a member (``"a.b"`` one whose name has a dot), ``[0]`` one element of a list,
    ``[]`` the rest of the path for each of its elements, ``[role=tool|system]`` those elements, or
    that object, with such a member (``[role|type=tool]``: under either name). Text that holds JSON
    is read, because cells of a table are text.

    Raises:
        ExampleError: An element of a list lacks the rest of the path; the code is ``bad_field``.
    """
    at = 0
    while step := _STEP.search(path, at):
        at = step.end()
        value = parse_nested(value)
        index, keys, wanted, name = step.groups()
        if name is not None:
            name = name.strip('"')
            if not isinstance(value, Mapping) or name not in value:
                return MISSING
            value = value[name]
            continue
        if keys is not None:
            if isinstance(value, Mapping) and _has(value, keys, wanted):
                continue
            if not isinstance(value, list | tuple):
                return MISSING
            value = [item for item in value if _has(item, keys, wanted)]
            continue
        if not isinstance(value, list | tuple):
            return MISSING
        if index:
            if not -len(value) <= int(index) < len(value):
                return MISSING
            value = value[int(index)]
            continue
        values = [follow(item, path[at:]) for item in value]
        for number, item in enumerate(values):
            if item is MISSING:
                where = f"{path[: step.start()]}[{number}]"
                raise ExampleError(f"{where} has no {path[at:].lstrip('.')}", code="bad_field")
        return values
    return value


def _has(item: Any, keys: str, wanted: str) -> bool:
    values = [item.get(key) for key in keys.split("|")] if isinstance(item, Mapping) else []
    return any(isinstance(value, str) and value in wanted.split("|") for value in values)


def parse_nested(value: Any) -> Any:
    """Return the list or object that a text holds as JSON or an array, or the value itself."""
    if hasattr(value, "tolist"):  # arrays of numpy inside the rows of a DataFrame
        return value.tolist()
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


_MAX_DEPTH, _MAX_PATHS, _MAX_LETTERS = 5, 24, 60  # of a row, in a message
_NO_TEXTS = frozenset({"role", "type", "id"})
_WORDS: Mapping[str, Sequence[str]] = {
    "question": ("question", "query", "prompt", "ask", "input", "user"),
    "contexts": ("context", "passage", "document", "docs", "chunk", "source", "retriev"),
    "response": ("answer", "response", "output", "completion", "generat", "reply", "result"),
}


def text_paths(row: Mapping[str, Any]) -> list[str]:
    """Return the paths of a row that lead to text, as ``--map`` takes them."""
    paths: list[str] = []
    for path in _paths(row, "", _MAX_DEPTH):
        if path not in paths:
            paths.append(path[:_MAX_LETTERS])
        if len(paths) == _MAX_PATHS:
            break
    return paths


def _paths(value: Any, path: str, depth: int) -> Iterator[str]:
    value = parse_nested(value)
    if isinstance(value, Mapping) and depth:
        for name, inner in value.items():
            inside = path or isinstance(parse_nested(inner), Mapping | list | tuple)
            key = f'"{name}"' if inside and any(mark in str(name) for mark in ".[") else str(name)
            yield from _paths(inner, f"{path}.{key}" if path else key, depth - 1)
    elif isinstance(value, list | tuple) and depth:
        first = value[0] if value else ""
        yield from _paths(first, path if isinstance(first, str) else f"{path}[]", depth - 1)
    elif value is not None:
        yield path


def suggested_mapping(lacking: Sequence[str], paths: Sequence[str]) -> dict[str, str]:
    """Return the mapping that may read a row, by the words in its paths; ``NAME`` if none fits."""
    texts = [path for path in paths if path.rpartition(".")[2] not in _NO_TEXTS]
    likely = {ours: _likely(ours, texts) for ours in lacking}
    if likely.keys() >= {"question", "response"}:
        heads = [likely[ours].partition("[]") for ours in ("question", "response")]
        if heads[0][:2] == heads[1][:2] and heads[0][1]:
            return {"rows": f"{heads[0][0]}[]"}
        chats = [path.removesuffix("[].role") for path in paths if path.endswith("[].role")]
        if chats and "NAME" in likely.values():
            return {"messages": chats[0]}
    return {
        ours: path if ours == "contexts" else path.replace("[]", "[0]")
        for ours, path in likely.items()
    }


def _likely(ours: str, paths: Sequence[str]) -> str:
    """Return the path whose last name, or else any, has a word of a field."""
    for names in ([path.rpartition(".")[2] for path in paths], paths):
        for word in _WORDS.get(ours, ()):
            for name, path in zip(names, paths, strict=True):
                if word in name.lower():
                    return path
    return "NAME"
