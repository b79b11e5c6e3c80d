"""Fields of ``bundle.json`` that earlier versions wrote, read where they change nothing."""

from __future__ import annotations

from typing import Any

# Field and the values of bundles that did not use it; any other value is refused as unknown.
_UNUSED: dict[tuple[str, str], tuple[Any, ...]] = {
    ("window", "sizes"): ([],),
    ("window", "break_even"): (None,),
    ("calibration", "method"): ("identity", "platt", "temperature"),
    ("calibration", "knots"): ({},),
}
# Thresholds that no verdict is decided by any more.
_DROPPED = ("answered", "halt")
# Name of the layout with these kinds of pieces, which were written one by one.
_LAYOUTS = {
    "cls contexts sep question sep response sep": "plain",
    "cls text question text contexts text sep response sep": "lettucedetect",
}


def without_past_fields(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the contents of ``bundle.json`` as this version writes them."""
    current = dict(raw)
    for (part, name), values in _UNUSED.items():
        fields = current.get(part)
        if isinstance(fields, dict) and name in fields and fields[name] in values:
            current[part] = {key: fields[key] for key in fields if key != name}
    if isinstance(thresholds := current.get("thresholds"), dict):
        kept = {name: value for name, value in thresholds.items() if name not in _DROPPED}
        current["thresholds"] = kept
    window = current.get("window")
    if isinstance(window, dict) and (layout := _layout_name(window.get("layout"))):
        current["window"] = window | {"layout": layout}
    return current


def _layout_name(layout: Any) -> str | None:
    pieces = layout.get("pieces") if isinstance(layout, dict) else None
    if not isinstance(pieces, list):
        return None
    return _LAYOUTS.get(
        " ".join(str(piece.get("kind")) for piece in pieces if isinstance(piece, dict))
    )
