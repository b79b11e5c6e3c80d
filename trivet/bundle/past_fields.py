"""Fields of ``bundle.json`` that earlier versions wrote, read where they change nothing."""

from __future__ import annotations

from typing import Any

# Field and the value of bundles that did not use it; any other value is refused as unknown.
_UNUSED: dict[tuple[str, str], Any] = {
    ("window", "sizes"): [],
    ("window", "break_even"): None,
}


def without_past_fields(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the contents of ``bundle.json`` without the fields that it did not use."""
    current = dict(raw)
    for (part, name), value in _UNUSED.items():
        fields = current.get(part)
        if isinstance(fields, dict) and name in fields and fields[name] == value:
            current[part] = {key: fields[key] for key in fields if key != name}
    return current
