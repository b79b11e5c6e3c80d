"""What a value of a row is, in a person's words."""

from __future__ import annotations

from typing import Any


def kind_of(value: Any) -> str:
    """Name a value's type for a person."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    names = {str: "a string", int: "a number", float: "a number", list: "a list", dict: "an object"}
    known = (name for kind, name in names.items() if isinstance(value, kind))
    return next(known, f"a value of type {type(value).__name__}")
