"""The rows of a file, of a folder of files or of stdin, in any format.

The suffix names the format (``.jsonl``, ``.json``, ``.csv``, ``.tsv``, ``.parquet``, ``.xlsx``),
and a second one the compression (``.gz``, ``.xz``, ``.zst``). A file without a known suffix is JSON
lines.
"""

from __future__ import annotations

import codecs
import hashlib
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, get_args

from trivet.errors import DataError, ExampleError
from trivet.logs.decoding import (
    COMPRESSIONS,
    DAMAGE,
    as_utf8,
    check_encoding,
    decompress,
)
from trivet.logs.json_rows import Fields, Row, parse_line, read_document, read_lines
from trivet.logs.table_rows import read_csv, read_parquet, read_xlsx

logger = logging.getLogger(__name__)

Format = Literal["jsonl", "json", "csv", "tsv", "parquet", "xlsx"]
_FORMATS: Mapping[str, Format] = {
    **{f".{name}": name for name in get_args(Format)},
    ".ndjson": "jsonl",
    ".jl": "jsonl",
    ".pq": "parquet",
}
STDIN = "-"
_PEEKED = 4096
_DAMAGE: tuple[type[Exception], ...] = (*DAMAGE, ValueError)


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A row of a log, before its columns are mapped."""

    number: int  # number of the row over all files, from 1
    location: str  # of the row for messages: ``line 3``, ``part-2.csv line 3``, ``row 3``
    line: int | None  # line in its file, if the format has lines
    fields: Fields | ExampleError  # names and values, or the error in the row
    file: str = ""  # file in a folder


class Log:
    """The rows of a file, a folder or stdin. Can be read once, in order.

    Attributes:
        source: Source as given.
        files: Files in the order of reading; empty for stdin.
        size: Bytes of all files; ``None`` for stdin.
    """

    def __init__(
        self,
        source: str,
        format: Format | None = None,  # noqa: A002
        parse: Callable[[bytes], Fields] = parse_line,
        encoding: str | None = None,
    ) -> None:
        """Find the files; raises ``DataError`` if there are none.

        Args:
            source: A file, a folder (every file in it with a known suffix, sorted by path), or
                ``-`` for stdin.
            format: Format of the rows; ``None`` means by suffix.
            parse: Parser of a line of JSON lines.
            encoding: Encoding of text, as for `as_utf8`.
        """
        check_encoding(encoding)
        path = Path(source)
        self.source = source
        self.files = () if source == STDIN else _find_files(path)
        self.size = sum(file.stat().st_size for file in self.files) if self.files else None
        self._folder = path if source != STDIN and path.is_dir() else None
        self._format = format
        self._parse = parse
        self._encoding = encoding
        self._bytes_before = 0
        self._current: IO[bytes] | None = None

    def sha256(self) -> str | None:
        """Return the SHA-256 of the content, and in a folder of the names; ``None`` for stdin."""
        if not self.files:
            return None
        whole = hashlib.sha256()
        for file in self.files:
            with file.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
            if self._folder is None:
                return digest
            whole.update(f"{file.relative_to(self._folder).as_posix()} {digest}\n".encode())
        return whole.hexdigest()

    def share_read(self) -> float | None:
        """Return the share of the bytes read so far, in [0, 1]; ``None`` for stdin."""
        if not self.size:
            return None
        done = self._current.tell() if self._current else 0
        return min(1.0, (self._bytes_before + done) / self.size)

    def close(self) -> None:
        """Close the file that is being read."""
        if self._current is not None:
            self._current.close()
            self._current = None

    def rows(self) -> Iterator[SourceRow]:
        """Yield the rows, lazily; where a file breaks off, ``DataError`` is raised."""
        if not self.files:
            yield from self._rows_of(sys.stdin.buffer, None, 0)
            return
        number = 0
        for file in self.files:
            with file.open("rb") as raw:
                self._current = raw
                try:
                    for row in self._rows_of(raw, file, number):
                        number = row.number
                        yield row
                finally:
                    self._current = None
            self._bytes_before += file.stat().st_size

    def _rows_of(self, raw: IO[bytes], file: Path | None, before: int) -> Iterator[SourceRow]:
        """Yield the rows of one file, or of stdin."""
        content = decompress(raw, str(file or ""))
        format_ = self._format or (_format(file) if file else None) or "jsonl"
        name = file.relative_to(self._folder).as_posix() if file and self._folder else ""
        inside = f"{name} " if name else ""
        location = "the beginning"
        reads: Iterator[Row]
        try:
            if format_ not in ("parquet", "xlsx"):
                content = as_utf8(content, self._encoding, name or str(file or "stdin"))
            if format_ == "jsonl" and self._format is None:
                format_ = _of_content(content)
            if format_ == "jsonl":
                reads = read_lines(content, self._parse)
            elif format_ == "json":
                reads = read_document(content)
            elif format_ == "xlsx":
                reads = read_xlsx(content)
            elif format_ == "parquet":
                whole = content is raw and raw.seekable()
                reads = read_parquet(content, seekable=whole)
            else:
                reads = read_csv(content, "\t" if format_ == "tsv" else None)
            for count, (line, fields) in enumerate(reads, start=1):
                location = inside + (f"row {count}" if line is None else f"line {line}")
                yield SourceRow(before + count, location, line, fields, name)
        except DataError:
            raise
        except _DAMAGE as error:
            raise DataError(f"the input breaks off after {location}: {error}") from error


def _of_content(content: IO[bytes]) -> Format:
    """Return JSON lines, or JSON where the first line shows a list or an object of many lines."""
    peek = getattr(content, "peek", None)
    start = peek(_PEEKED)[:_PEEKED].removeprefix(codecs.BOM_UTF8).lstrip() if peek else b""
    first, ends, _ = start.partition(b"\n")
    is_list = first.startswith(b"[") and first.lstrip(b"[ \t\r")[:1] in (b"{", b"")
    return "json" if is_list or (ends and first.strip() == b"{") else "jsonl"


def _find_files(path: Path) -> tuple[Path, ...]:
    if path.is_file():
        return (path,)
    if not path.is_dir():
        raise DataError(f"no such file: {path}")
    inside = sorted(file for file in path.rglob("*") if file.is_file() and file.name[0] not in "._")
    if any(file.suffix == ".arrow" for file in inside):
        raise DataError(
            f"{path}: holds Arrow files, which are not read; in Python "
            f"datasets.load_from_disk({str(path)!r}).to_parquet('log.parquet') writes one that is"
        )
    files = tuple(file for file in inside if _format(file))
    if not files:
        raise DataError(f"{path}: no file in it ends in {', '.join(_FORMATS)}")
    if others := [file.name for file in inside if not _format(file)]:
        logger.warning("%s: %d files are not read: %s", path, len(others), ", ".join(others[:5]))
    return files


def _format(file: Path) -> Format | None:
    name = file.with_suffix("").name if file.suffix in COMPRESSIONS else file.name
    return _FORMATS.get(Path(name).suffix.lower())
