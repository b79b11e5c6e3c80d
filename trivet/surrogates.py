"""Lone surrogates, which no encoding can hold."""

from __future__ import annotations

import re

_SURROGATES = re.compile("[\ud800-\udfff]")


def replace_surrogates(text: str) -> tuple[str, int]:
    """Replace each lone surrogate by U+FFFD, which keeps all offsets; return text and count."""
    if text.isascii():  # a fast check
        return text, 0
    return _SURROGATES.subn("\ufffd", text)
