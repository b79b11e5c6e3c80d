"""The files that a run of a language model writes, again from the beginning each time.

The cache of answers makes that cheap: what was paid for is read from it, so the files of a resumed
run are those of a run without a stop. They appear, complete in their lines, when the run ends or is
stopped; a killed one leaves those of the run before.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from trivet.batch.output import Output, RunChangedError
from trivet.errors import DataError
from trivet.llm.cache import AnswerCache
from trivet.records import to_json_text

_HELD = 64  # lines that are written at once


class ResultFiles:
    """JSONL files that are written together: ``OUT`` and others such as ``OUT.review.jsonl``.

    Next to them lie ``OUT.run.json``, the record of the run, and ``OUT.cache``.

    Attributes:
        cache: Answers that were paid for.
    """

    def __init__(
        self,
        out: Path,
        others: Sequence[str],
        settings: Mapping[str, Any],
        *,
        restart: bool,
    ) -> None:
        """Open the files; a context manager closes them.

        Args:
            out: File for the first kind of rows; ends in ``.jsonl``.
            others: Names of the other kinds.
            settings: Input and settings on which the rows depend.
            restart: Whether files of another run, or changed ones, are overwritten.

        Raises:
            DataError: ``out`` has another ending, or cannot be written.
            RunChangedError: The files are of another run, or were changed since.
            OutputLockedError: Another process is writing them.
        """
        if out.suffix != ".jsonl":
            raise DataError(f"{out}: must end in .jsonl")
        self._paths = {"": out} | {name: out.with_suffix(f".{name}.jsonl") for name in others}
        self._record = out.with_name(f"{out.name}.run.json")
        self._settings = dict(settings)
        self._lines: dict[str, list[bytes]] = {name: [] for name in self._paths}
        self._stack = contextlib.ExitStack()
        self.summary: dict[str, Any] = {}
        new = {name: path.with_name(f"{path.name}.new") for name, path in self._paths.items()}
        self._outputs: dict[str, Output] = {}
        with self._stack:
            for name, path in new.items():
                self._outputs[name] = self._stack.enter_context(Output(path))
                self._outputs[name].cut(0)
            self._before = self._check(restart)
            path = out.with_name(f"{out.name}.cache")
            self._has_cache = path.exists()
            self.cache = self._stack.enter_context(AnswerCache(path))
            self._stack = self._stack.pop_all()

    def write(self, row: Mapping[str, Any], kind: str = "") -> None:
        """Write a row of a kind; ``OutputFullError`` on a full disk."""
        self._lines[kind].append(to_json_text(dict(row)).encode() + b"\n")
        if len(self._lines[kind]) >= _HELD:
            self._flush(kind)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with self._stack:
            is_unused = not (self._has_cache or self.cache.count())
            for kind in self._outputs:
                self._flush(kind)
        if is_unused:  # as after a dry run
            self.cache.path.unlink()
        written = {kind: output for kind, output in self._outputs.items() if output.size}
        if written:
            self._record_files([_digest(output.path) for output in written.values()])
        for kind, output in self._outputs.items():
            if kind in written:
                output.path.replace(self._paths[kind])
                continue
            output.path.unlink()
            if written:
                self._paths[kind].unlink(missing_ok=True)

    def _record_files(self, digests: list[str]) -> None:
        """Write the record; after a kill it knows each file, of this run or of the one before."""
        record = self._settings | {"files": [*digests, *self._before]} | self.summary
        with Output(self._record.with_name(f"{self._record.name}.new")) as file:
            file.cut(0)
            file.append(json.dumps(record, indent=2).encode() + b"\n")
        file.path.replace(self._record)

    def _flush(self, kind: str) -> None:
        lines, self._lines[kind] = self._lines[kind], []
        if lines:
            self._outputs[kind].append(b"".join(lines))

    def _check(self, restart: bool) -> list[str]:
        """Return the digests of the files that are there, if this run may replace them."""
        there = {path: _digest(path) for path in self._paths.values() if path.exists()}
        way_out = "choose another --out, or replace it with --restart"
        if there and not restart:
            try:
                record = json.loads(self._record.read_bytes())
            except (OSError, ValueError):
                record = {}
            for path, digest in there.items():
                if digest not in record.get("files", ()):
                    raise RunChangedError(f"{path}: is no result of this run; {way_out}")
            for name, value in self._settings.items():
                if (before := record.get(name)) != value:
                    raise RunChangedError(
                        f"{self._paths['']}: {name} was {before}, is {value}; {way_out}"
                    )
        return list(there.values())


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
