"""Files of one JSON object a line, plain or compressed; a bad line is named and is not fatal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trivet.data.logs.compressed import DAMAGE, decompress
from trivet.records import DataError


class RowError(ValueError):
    """One row cannot be used; the message is the reason under which it is counted.

    Args:
        reason: The same for all rows of one fault.
        detail: What this row holds, with its numbers; stands beside its place in the report.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self._detail = detail

    def at(self, place: str) -> str:
        """Return the row's place and what it holds there."""
        return f"{place}: {self._detail}" if self._detail else place


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | RowError]]:
    """Yield each line's number, counted from 1, with its object or why it is none.

    The last suffix names the compression: ``.gz``, ``.xz``, ``.zst``, or none. Blank lines are
    skipped.

    Raises:
        DataError: The file does not exist, or its compression is damaged.
    """
    if not path.is_file():
        raise DataError(f"no such file: {path}")
    number = 0
    try:
        with path.open("rb") as raw, decompress(raw, str(path)) as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, _parse(line)
    except DAMAGE as error:
        raise DataError(f"{path} cannot be read past line {number}: {error}") from error


def _parse(line: bytes) -> dict[str, Any] | RowError:
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return RowError("line is not JSON")
    return row if isinstance(row, dict) else RowError("line is not a JSON object")
