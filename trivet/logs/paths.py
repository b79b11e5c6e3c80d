"""Dotted paths to values inside nested rows, such as ``outputs.documents[].page_content``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
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
        found = [follow(item, path[at:]) for item in value]
        for number, item in enumerate(found):
            if item is MISSING:
                place = f"{path[: step.start()]}[{number}]"
                raise ExampleError(f"{place} has no {path[at:].lstrip('.')}", code="bad_field")
        return found
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
