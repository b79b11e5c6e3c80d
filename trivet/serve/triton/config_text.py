"""Writer of ``config.pbtxt``, in protobuf's text format.

The schema itself (tritonclient, grpcio) is too large a dependency for this; the tests use it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

_WIDTH = 96  # characters


class Word(str):
    """A value of an enumeration such as ``KIND_CPU``, written without quotes."""

    __slots__ = ()


Scalar: TypeAlias = str | int | bool
Value: TypeAlias = "Scalar | Message | Sequence[Scalar] | Sequence[Message]"
Message: TypeAlias = Mapping[str, Value]


def to_text(message: Message) -> str:
    """Return a message as text; a list is a repeated field, and a map is made by ``to_map``."""
    return "".join(f"{line}\n" for line in _lines(message))


def to_map(values: Mapping[str, Value]) -> list[Message]:
    """Return a map in the form of the text format."""
    return [{"key": key, "value": value} for key, value in values.items()]


def to_parameters(values: Mapping[str, str]) -> list[Message]:
    """Return the ``parameters`` of a model, which are strings by name."""
    return to_map({key: {"string_value": value} for key, value in values.items()})


def _lines(message: Message) -> Iterator[str]:
    for name, value in message.items():
        if isinstance(value, Mapping):
            yield from _block(name, value)
        elif isinstance(value, str | int):
            yield f"{name}: {_scalar(value)}"
        else:
            scalars = [_scalar(each) for each in value if not isinstance(each, Mapping)]
            if scalars:
                yield f"{name}: [ {', '.join(scalars)} ]"
            for each in value:
                if isinstance(each, Mapping):
                    yield from _block(name, each)


def _block(name: str, message: Message) -> Iterator[str]:
    lines = list(_lines(message))
    whole = f"{name} {{ {' '.join(lines)} }}"
    if len(whole) <= _WIDTH:
        yield whole
        return
    yield f"{name} {{"
    yield from (f"  {line}" for line in lines)
    yield "}"


def _scalar(value: Scalar) -> str:
    if isinstance(value, Word):
        return str(value)
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value)  # strings and numbers as in JSON
