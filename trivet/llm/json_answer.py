"""JSON in the answers of models: with fences, remarks around it, or small faults."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from typing import Any

_LONGEST = 400_000  # characters that are repaired; it takes long
_ALIKE = 0.8  # of two names, 1 if they are equal


def read_object(text: str) -> dict[str, Any]:
    """Return the JSON object in an answer, repaired if need be; without one ``ValueError``."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _repaired(text)
    if isinstance(value, list):  # objects with text between them
        value = next((each for each in reversed(value) if isinstance(each, dict)), None)
    if not isinstance(value, dict) or not value:
        raise ValueError("the answer holds no JSON object")
    return value


def _repaired(text: str) -> Any:
    import json_repair

    if len(text) > _LONGEST:
        raise ValueError(
            f"the answer is no JSON, and too long to be repaired: {len(text)} characters"
        )
    try:
        return json_repair.loads(text, skip_json_loads=True)
    except RecursionError as error:
        raise ValueError("the answer is nested too deeply") from error


def rename_fields(value: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the fields with one of these names, or with a name that is nearly one of them."""
    found: dict[str, Any] = {}
    for name in names:
        given = name if name in value else None
        if given is None:
            given = next(iter(difflib.get_close_matches(name, value, 1, _ALIKE)), None)
        if given is not None:
            found[name] = value[given]
    return found
