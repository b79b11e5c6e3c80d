"""Metadata columns of a row, such as the model that wrote it or its prompt version."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from collections.abc import Mapping, Set
from typing import Any, TypeAlias

from trivet.data.files.json_lines import Fields

Scalar: TypeAlias = str | int | float | bool

_LONGEST_TEXT = 200  # characters; a longer value is a text, not a name


def read_metadata(
    fields: Fields, chosen: tuple[str, ...] | None, ours: Set[str]
) -> dict[str, Scalar]:
    """Return the columns to be returned with the verdict; members of ``metadata`` count as columns.

    ``chosen`` names columns with any content (lists and objects as JSON text). ``None`` takes every
    column that is not in ``ours`` (lower case) and contains text of up to 200 characters, a number,
    or true or false.
    """
    columns: dict[str, Any] = {}
    for name, value in fields:
        if name.lower() == "metadata" and isinstance(value, Mapping):
            columns = {**value, **columns}
        else:
            columns[name] = value
    found = {}
    for name in columns if chosen is None else chosen:
        value = columns.get(name)
        if chosen is not None and isinstance(value, list | Mapping):
            value = json.dumps(value, ensure_ascii=False, default=str)
        scalar = _scalar(value)
        is_text = isinstance(scalar, str) and len(scalar) > _LONGEST_TEXT
        if scalar is not None and (chosen is not None or not (is_text or name.lower() in ours)):
            found[name] = scalar
    return found


def _scalar(value: Any) -> Scalar | None:
    """Return a value that JSON can hold, or ``None`` if it is empty or not a scalar."""
    if isinstance(value, decimal.Decimal):
        value = float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return value if isinstance(value, str | bool | int) else None
