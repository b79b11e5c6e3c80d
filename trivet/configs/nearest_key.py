"""The keys that exist, nearest to one that does not: for the message that refuses it."""

from __future__ import annotations

import difflib
import re
from dataclasses import is_dataclass
from typing import get_args, get_type_hints

_LIKE_WORDS = 0.75  # how alike the last words must be, in [0, 1]


def nearest_keys(key: str, schema: type) -> list[str]:
    """Return at most three dotted keys of a schema of dataclasses, the nearest first.

    A key is near by its last word in any part (``epochs`` for ``optim.epochs``), or as a whole
    (``optimizer.epochs``).
    """
    known = _keys(schema)
    last = {name.rpartition(".")[2]: name for name in reversed(known)}
    word = key.rpartition(".")[2]
    near = [last[found] for found in difflib.get_close_matches(word, last, 1, _LIKE_WORDS)]
    near += difflib.get_close_matches(re.sub(r"\[\d+\]", "", key), known, 2)
    return list(dict.fromkeys(near))


def _keys(part: type) -> list[str]:
    """Return the dotted names of all keys, those of a list's items under the list's own name."""
    names = []
    for name, kind in get_type_hints(part).items():
        inner = next((one for one in (kind, *get_args(kind)) if is_dataclass(one)), None)
        names.append(name)
        if isinstance(inner, type):
            names += [f"{name}.{key}" for key in _keys(inner)]
    return names
