"""The paths of the texts in a row, and which of them a field may be, for messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trivet.logs.paths import parse_nested

_MAX_DEPTH, _MAX_PATHS, _MAX_LETTERS = 5, 24, 60  # of a row, in a message
_NO_TEXTS = frozenset({"role", "type", "id"})
_WORDS: Mapping[str, Sequence[str]] = {
    "question": ("question", "query", "prompt", "ask", "input", "user"),
    "contexts": ("context", "passage", "document", "docs", "chunk", "source", "retriev"),
    "response": ("answer", "response", "output", "completion", "generat", "reply", "result"),
}


def text_paths(row: Mapping[str, Any]) -> list[str]:
    """Return the paths of a row that lead to text, as ``--map`` takes them."""
    found: list[str] = []
    for path in _paths(row, "", _MAX_DEPTH):
        if path not in found:
            found.append(path[:_MAX_LETTERS])
        if len(found) == _MAX_PATHS:
            break
    return found


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
