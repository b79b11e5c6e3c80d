"""A JSONL file that a long run appends to, and that the same run goes on with."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from trivet.batch.output import Output, RunChangedError
from trivet.errors import DataError
from trivet.records import to_json_text


class ResumableJsonl:
    """Rows of a run, and beside them ``NAME.run.json``: what they were made of, and their bytes.

    The record is replaced after the rows were synced to the disk, so it never claims more than
    there is, and a torn end is written again. The file is locked until it is closed.

    Attributes:
        path: Path of the file.
    """

    def __init__(self, path: Path, made_of: Mapping[str, Any], *, restart: bool = False) -> None:
        """Open the file, and keep the rows that an earlier run wrote.

        Args:
            path: File of the rows.
            made_of: Input and settings that the rows depend on, as JSON values.
            restart: Whether earlier rows are dropped, of whatever run.

        Raises:
            RunChangedError: The rows were made of something else, or by something else.
            OutputLockedError: Another process writes the file.
            DataError: It cannot be written, or its record cannot be read.
        """
        self.path = path
        self._record_path = path.with_name(f"{path.name}.run.json")
        self._made_of = dict(made_of)
        self._output = Output(path)
        try:
            size = 0 if restart else self._check()
            self._output.cut(size)
        except BaseException:
            self._output.__exit__()
            raise

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows that are in the file."""
        with self.path.open("rb") as file:
            for line in file:
                yield json.loads(line)

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rows and sync them; ``OutputFullError`` on a full disk."""
        self._output.append(b"".join(to_json_text(dict(row)).encode() + b"\n" for row in rows))
        record = self._made_of | {"bytes": self._output.size}
        replace_file(self._record_path, json.dumps(record, indent=2) + "\n")

    def _check(self) -> int:
        """Return the bytes to keep, or refuse the file."""
        way_out = "choose another --out, or begin anew with --restart"
        if not self._output.size:
            return 0
        try:
            record = json.loads(self._record_path.read_bytes())
            size = int(record["bytes"])
        except FileNotFoundError as error:
            name = self._record_path.name
            raise RunChangedError(f"{self.path}: has no {name}; {way_out}") from error
        except (OSError, ValueError, TypeError, KeyError) as error:
            what = f"{self._record_path}: cannot be read ({error!r})"
            raise DataError(f"{what}; {way_out}") from error
        changes = [
            f"{name} was {record.get(name)!r}, is {value!r}"
            for name, value in self._made_of.items()
            if record.get(name) != value
        ]
        if self._output.size < size:
            changes.append(f"{size} bytes were written, {self._output.size} are there")
        if changes:
            differences = "; ".join(changes)
            raise RunChangedError(f"{self.path}: is of another run: {differences}; {way_out}")
        return size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with self._output:
            is_empty = not self._output.size
        if is_empty:
            self.path.unlink()
            self._record_path.unlink(missing_ok=True)


def replace_file(path: Path, content: str) -> None:
    """Write a file; a crash leaves the old one or the new one."""
    new = path.with_name(f"{path.name}.new")
    with new.open("w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
