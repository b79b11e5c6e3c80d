"""A JSONL file that a long run appends to, and that the same run goes on with."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from trivet.batch.output import Output, RunChangedError
from trivet.errors import DataError
from trivet.records import to_json_text

_WAY_OUT = "choose another --out or start over with --restart"


class ResumableJsonl:
    """Rows of a run, with the record that says how many bytes of them count.

    The record is replaced after the rows were synced to the disk, so it never claims more than
    there is; what lies behind is written again. The file is locked until it is closed.

    Attributes:
        path: Path of the file.
        record_path: Path of the record, by default ``NAME.run.json``.
    """

    def __init__(self, path: Path, record_path: Path | None = None) -> None:
        """Open or create the file.

        Raises:
            DataError: It cannot be written.
            OutputLockedError: Another process writes it.
        """
        self.path = path
        self.record_path = record_path or path.with_name(f"{path.name}.run.json")
        self._record: dict[str, Any] = {}
        self._output = Output(path)

    @classmethod
    def of(cls, path: Path, made_of: Mapping[str, Any], *, restart: bool = False) -> Self:
        """Open a file whose rows depend on ``made_of``, and keep those of an earlier run.

        Raises:
            RunChangedError: The rows were made of something else, or by something else.
            DataError: The record cannot be read; errors as above.
        """
        kept = cls(path)
        try:
            kept.keep(0 if restart else kept._check(made_of))
        except BaseException:
            kept.__exit__()
            raise
        kept._record = dict(made_of)
        return kept

    @property
    def size(self) -> int:
        """Bytes of the file that are on the disk."""
        return self._output.size

    def keep(self, size: int) -> None:
        """Drop what lies behind the first ``size`` bytes."""
        self._output.cut(size)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows that are in the file."""
        with self.path.open("rb") as file:
            for line in file:
                yield json.loads(line)

    def append(self, row: Mapping[str, Any]) -> None:
        """Append a row to a file that ``of`` opened; ``OutputFullError`` on a full disk."""
        self.append_lines([to_json_text(dict(row)).encode() + b"\n"])
        self.write_record(self._record | {"bytes": self.size})

    def append_lines(self, lines: Sequence[bytes]) -> None:
        """Append lines and sync them; they count once the record says so."""
        self._output.append(b"".join(lines))

    def write_record(self, record: Mapping[str, Any]) -> None:
        """Write or replace the record."""
        replace_file(self.record_path, json.dumps(record, indent=2) + "\n")

    def _check(self, made_of: Mapping[str, Any]) -> int:
        """Return the bytes to keep, or refuse the file."""
        if not self.size:
            return 0
        try:
            record = json.loads(self.record_path.read_bytes())
            size = int(record["bytes"])
        except FileNotFoundError as error:
            name = self.record_path.name
            raise RunChangedError(f"{self.path}: has no {name}; {_WAY_OUT}") from error
        except (OSError, ValueError, TypeError, KeyError) as error:
            reason = f"{self.record_path}: cannot be read ({error!r})"
            raise DataError(f"{reason}; {_WAY_OUT}") from error
        changes = [
            f"{name} was {record.get(name)!r}, is {value!r}"
            for name, value in made_of.items()
            if record.get(name) != value
        ]
        if self.size < size:
            changes.append(f"{size} bytes were written, {self.size} are there")
        if changes:
            differences = "; ".join(changes)
            raise RunChangedError(
                f"{self.path}: was written by a different run ({differences}); {_WAY_OUT}"
            )
        return size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with self._output:
            is_unused = self._record and not self.size
        if is_unused:
            self.path.unlink()
            self.record_path.unlink(missing_ok=True)


def replace_file(path: Path, content: str) -> None:
    """Write a file; a crash leaves the old one or the new one."""
    new = path.with_name(f"{path.name}.new")
    with new.open("w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
