"""Columns of a row that say something about it: which model wrote it, with which prompt."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from collections.abc import Mapping, Set
from typing import Any, TypeAlias

from trivet.data.logs.json_objects import Fields

Scalar: TypeAlias = str | int | float | bool

_LONGEST_TEXT = 200  # characters; what is longer is a text, not a name


def read_metadata(
    fields: Fields, chosen: tuple[str, ...] | None, ours: Set[str]
) -> dict[str, Scalar]:
    """Return the columns that come back with the verdict.

    Args:
        fields: The row. The members of an object under ``metadata`` count as columns too.
        chosen: Their names, whatever they hold (lists and objects as JSON text); ``None`` takes
            every column that is not ours and holds text of up to 200 characters, a number, or true
            or false.
        ours: Lower-cased names that stand for our own fields.
    """
    columns: dict[str, Any] = {}
    for name, value in fields:
        if name.lower() == "metadata" and isinstance(value, Mapping):
            columns = {**value, **columns}
        else:
            columns[name] = value
    if chosen is not None:
        values = {name: _any_value(columns[name]) for name in chosen if name in columns}
        return {name: value for name, value in values.items() if value is not None}
    found = {}
    for name, value in columns.items():
        scalar = _scalar(value)
        is_text = isinstance(scalar, str) and len(scalar) > _LONGEST_TEXT
        if name.lower() not in ours and scalar is not None and not is_text:
            found[name] = scalar
    return found


def _scalar(value: Any) -> Scalar | None:
    """Return a value as JSON can hold it; ``None`` where it is empty or no scalar."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str | bool | int):
        return value
    if isinstance(value, decimal.Decimal):
        return _scalar(float(value))
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return None


def _any_value(value: Any) -> Scalar | None:
    if isinstance(value, list | Mapping):
        return json.dumps(value, ensure_ascii=False, default=str)
    return _scalar(value)
