"""A log: the rows of a file, of a folder of files or of stdin, whatever their format.

The suffix says the format (``.jsonl``, ``.json``, ``.csv``, ``.tsv``, ``.parquet``), and one behind
it the compression (``.gz``, ``.xz``, ``.zst``). What has no known suffix is read as JSON lines.
"""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, get_args

from trivet.data.logs.compressed import COMPRESSIONS, DAMAGE, decompress
from trivet.data.logs.csv_rows import read_csv
from trivet.data.logs.json_objects import Fields, parse_line
from trivet.data.logs.json_rows import Read, read_document, read_lines
from trivet.data.logs.parquet_rows import read_parquet
from trivet.records import DataError, ExampleError

logger = logging.getLogger(__name__)

Format = Literal["jsonl", "json", "csv", "tsv", "parquet"]
_FORMATS: Mapping[str, Format] = {
    **{f".{name}": name for name in get_args(Format)},
    ".ndjson": "jsonl",
    ".jl": "jsonl",
    ".pq": "parquet",
}
STDIN = "-"


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A row as it stands in the log.

    Attributes:
        number: Counted from 1, over all files.
        place: Where it stands, for a person: ``line 3``, ``part-2.csv line 3``, ``row 3``.
        line: Its line in its file, where the format has lines.
        fields: Names and values, or why it has none.
    """

    number: int
    place: str
    line: int | None
    fields: Fields | ExampleError


class Log:
    """The rows of a file, a folder or stdin. Read once, from the beginning, in order.

    Attributes:
        source: As it was given.
        files: What is read, in order; empty for stdin.
        size: Bytes of all files; ``None`` for stdin.
    """

    def __init__(
        self,
        source: str,
        format: Format | None = None,  # noqa: A002
        parse: Callable[[bytes], Fields] = parse_line,
    ) -> None:
        """Find the files.

        Args:
            source: A file, a folder (every file in it with a known suffix, sorted by its path), or
                ``-`` for stdin.
            format: What the rows are written in; ``None`` asks the suffix.
            parse: Reads a line of JSON lines.

        Raises:
            DataError: There is no such file, or nothing to read in the folder.
        """
        self.source = source
        self.files = () if source == STDIN else _files(Path(source))
        self.size = sum(file.stat().st_size for file in self.files) if self.files else None
        self._folder = Path(source) if source != STDIN and Path(source).is_dir() else None
        self._format = format
        self._parse = parse
        self._bytes_before = 0
        self._current: IO[bytes] | None = None

    def sha256(self) -> str | None:
        """Return the SHA-256 of the content, and of the files' names in a folder; not of stdin."""
        if not self.files:
            return None
        whole = hashlib.sha256()
        for file in self.files:
            with file.open("rb") as content:
                own = hashlib.file_digest(content, "sha256").hexdigest()
            if self._folder is None:
                return own
            whole.update(f"{self._name(file)} {own}\n".encode())
        return whole.hexdigest()

    def share_read(self) -> float | None:
        """Return which share of the bytes was read so far, in [0, 1]; ``None`` for stdin."""
        if not self.size:
            return None
        done = self._current.tell() if self._current else 0
        return min(1.0, (self._bytes_before + done) / self.size)

    def close(self) -> None:
        """Close the file that is being read, where nobody reads on."""
        if self._current is not None:
            self._current.close()
            self._current = None

    def rows(self) -> Iterator[SourceRow]:
        """Yield the rows, lazily.

        Raises:
            DataError: A file breaks off, or a package is missing; what stands before was yielded.
        """
        if not self.files:
            yield from self._rows_of(sys.stdin.buffer, self._format or "jsonl", None, 0)
            return
        number = 0
        for file in self.files:
            format_ = self._format or _format(file) or "jsonl"
            with file.open("rb") as raw:
                self._current = raw
                try:
                    for row in self._rows_of(raw, format_, file, number):
                        number = row.number
                        yield row
                finally:
                    self._current = None
            self._bytes_before += file.stat().st_size

    def _rows_of(
        self, raw: IO[bytes], format_: Format, file: Path | None, before: int
    ) -> Iterator[SourceRow]:
        """Yield the rows of one file, or of stdin."""
        compressed = file is not None and bool(_compression(file.name))
        content = decompress(raw, str(file or ""))
        inside = f"{self._name(file)} " if file and self._folder else ""
        place = "the beginning"
        try:
            seekable = not compressed and raw.seekable()
            reads = self._read(content, format_, seekable=seekable)
            for count, (line, fields) in enumerate(reads, start=1):
                place = inside + (f"row {count}" if line is None else f"line {line}")
                yield SourceRow(before + count, place, line, fields)
        except DataError:
            raise
        except (*DAMAGE, ValueError) as error:
            raise DataError(f"the input breaks off after {place}: {error}") from error

    def _read(self, content: IO[bytes], format_: Format, *, seekable: bool) -> Iterator[Read]:
        if format_ == "jsonl":
            return read_lines(content, self._parse)
        if format_ == "json":
            return read_document(content)
        if format_ == "parquet":
            return read_parquet(content, seekable=seekable)
        return read_csv(content, "\t" if format_ == "tsv" else None)

    def _name(self, file: Path) -> str:
        return file.relative_to(self._folder).as_posix() if self._folder else str(file)


def _files(path: Path) -> tuple[Path, ...]:
    if path.is_file():
        return (path,)
    if not path.is_dir():
        raise DataError(f"no such file: {path}")
    inside = sorted(file for file in path.rglob("*") if file.is_file() and file.name[0] not in "._")
    files = tuple(file for file in inside if _format(file))
    if not files:
        raise DataError(f"{path}: no file in it ends in {', '.join(_FORMATS)}")
    if others := [file.name for file in inside if not _format(file)]:
        logger.warning("%s: %d files are not read: %s", path, len(others), ", ".join(others[:5]))
    return files


def _compression(name: str) -> str:
    return next((suffix for suffix in COMPRESSIONS if name.endswith(suffix)), "")


def _format(file: Path) -> Format | None:
    name = file.name.removesuffix(_compression(file.name))
    return _FORMATS.get(Path(name).suffix.lower())
