"""Lines of a file of which none fills the memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

LONGEST_LINE = 64 << 20
"""Bytes; what is longer is no row of a log, and its rest is not held."""


def read_bounded(file: IO[bytes], longest: int = LONGEST_LINE) -> Iterator[bytes | None]:
    """Yield the lines of a file with their ends; ``None`` stands for one that is too long.

    Args:
        file: Open for reading.
        longest: Bytes of a line, its end included.
    """
    while line := file.readline(longest + 1):
        if len(line) <= longest:
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(1 << 20)
        yield None
