"""Files of one JSON object a line, plain or compressed; a bad line is named and is not fatal."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from trivet.records import DataError

if TYPE_CHECKING:
    from typing_extensions import Buffer


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
    number = 0
    try:
        with open_lines(path) as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, _parse(line)
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        raise DataError(f"{path} cannot be read past line {number}: {error}") from error


def _parse(line: bytes) -> dict[str, Any] | RowError:
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return RowError("line is not JSON")
    return row if isinstance(row, dict) else RowError("line is not a JSON object")


def open_lines(path: Path) -> IO[bytes]:
    """Open a file of lines, plain or compressed.

    Reading on may raise ``EOFError``, ``OSError``, ``lzma.LZMAError`` or ``zlib.error`` where the
    compression is damaged; :func:`read_json_lines` turns them into a ``DataError``.

    Raises:
        DataError: The file does not exist, or its compression needs a package.
    """
    if not path.is_file():
        raise DataError(f"no such file: {path}")
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    if path.suffix == ".xz":
        return lzma.open(path, "rb")
    if path.suffix == ".zst":
        return io.BufferedReader(_Chunks(_decompress_zst(path)))
    return path.open("rb")


def _decompress_zst(path: Path) -> Iterator[bytes]:
    """Yield the content in pieces. The package's own reader takes a truncated file for its end."""
    try:
        import zstandard
    except ImportError as error:
        raise DataError(
            f"{path} is compressed with zstd, which needs a package: pip install 'trivet[zstd]'"
        ) from error
    decompressor = zstandard.ZstdDecompressor()
    frame = decompressor.decompressobj()
    inside = False
    with path.open("rb") as file:
        while compressed := file.read(1 << 16):
            while compressed:
                try:
                    yield frame.decompress(compressed)
                except zstandard.ZstdError as error:
                    raise OSError(str(error)) from error
                compressed = frame.unused_data
                inside = not frame.eof
                if frame.eof:
                    frame = decompressor.decompressobj()
    if inside:
        raise EOFError("the file ends in the middle of a zstd frame")


class _Chunks(io.RawIOBase):
    """Pieces of bytes as a file, for :class:`io.BufferedReader`, which knows lines."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        super().__init__()
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        into = memoryview(buffer)
        count = min(len(into), len(self._rest))
        into[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
