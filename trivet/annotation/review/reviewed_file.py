"""The file of reviewed rows: each is on the disk before the person sees the next."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from trivet.batch.output import Output, RunChangedError
from trivet.errors import DataError
from trivet.labelled.grouping import digest
from trivet.labelled.labelled_jsonl import parse_row
from trivet.labelled.source_report import SourceReport
from trivet.records import to_json_text


def key_of(row: Mapping[str, Any]) -> str:
    """Return a digest of a row's name and texts, by which a reviewed row is found again."""
    names = (row.get("id"), row.get("question"), row.get("response"))
    return digest(*("" if one is None else str(one) for one in names), *row["contexts"])


class ReviewedFile:
    """Labelled JSONL with one line for each reviewed row, in the order of the reviews.

    Attributes:
        rows: The reviewed rows by their key.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the file, and lock it; a line that a crash left unfinished is removed.

        Raises:
            DataError: The file cannot be written, or has lines that are no reviewed rows.
            OutputLockedError: Another process writes it.
        """
        self.path = path
        self.rows: dict[str, dict[str, Any]] = {}
        self._is_new = not path.exists()
        self._output = Output(path)
        whole, _, _ = path.read_bytes().rpartition(b"\n")
        for number, line in enumerate(whole.split(b"\n") if whole else (), start=1):
            try:
                row = json.loads(line)
                parse_row(row, "", "", SourceReport(str(path)))
                if not {"by", "at", "changed"} <= row["review"].keys():
                    raise KeyError("review")
                self.rows[key_of(row)] = row
            except (ValueError, KeyError, TypeError, AttributeError):
                self._output.__exit__()
                message = f"{path}, line {number}: no reviewed row; choose another --out"
                raise DataError(message) from None
        self._output.cut(len(whole) + 1 if whole else 0)
        self._known = self._state()

    def save(self, row: dict[str, Any]) -> None:
        """Write a row to the disk; a row that was reviewed before is replaced.

        Raises:
            RunChangedError: Another program changed or removed the file.
            OutputFullError: The disk is full.
        """
        if self._state() != self._known:
            raise RunChangedError(
                f"{self.path}: another program changed it; nothing was saved: start trivet review "
                "again"
            )
        key = key_of(row)
        if key in self.rows:
            self._replace(self.rows | {key: row})
        else:
            self._output.append(_line(row))
        self.rows[key] = row
        self._known = self._state()

    def _replace(self, rows: Mapping[str, dict[str, Any]]) -> None:
        """Write all rows beside the file, and put them in its place; the lock stays."""
        new = Output(self.path.with_name(f"{self.path.name}.new"))
        new.cut(0)
        new.append(b"".join(map(_line, rows.values())))
        new.path.replace(self.path)
        self._output.__exit__()
        self._output, new.path = new, self.path

    def _state(self) -> tuple[int, int, int] | None:
        return file_state(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file; a new one without a row is removed."""
        unused = self._is_new and not self.rows and self._state() == self._known
        self._output.__exit__()
        if unused:
            self.path.unlink(missing_ok=True)


def file_state(path: Path) -> tuple[int, int, int] | None:
    """Return what changes with a file's content; ``None`` if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _line(row: dict[str, Any]) -> bytes:
    return to_json_text(row).encode() + b"\n"
