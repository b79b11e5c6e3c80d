"""Bytes of a file that may be compressed; the last suffix of its name says how."""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, cast

from trivet.records import DataError

if TYPE_CHECKING:
    from typing_extensions import Buffer

COMPRESSIONS = (".gz", ".xz", ".zst")
DAMAGE = (EOFError, OSError, lzma.LZMAError, zlib.error)
"""What reading on raises where a file is damaged."""


def decompress(file: IO[bytes], name: str) -> IO[bytes]:
    """Return the content of an open file; reading on raises one of ``DAMAGE`` where it is damaged.

    Args:
        file: The file, at its beginning.
        name: Its name; ``.gz``, ``.xz`` and ``.zst`` are known, all else is plain.

    Raises:
        DataError: The compression needs a package that is not installed; when the first byte is
            read.
    """
    if name.endswith(".gz"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=file, mode="rb"))
    if name.endswith(".xz"):
        return lzma.open(file, "rb")
    if name.endswith(".zst"):
        return io.BufferedReader(_Chunks(_decompress_zst(file, name)))
    return file


def _decompress_zst(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Yield the content in pieces. The package's own reader takes a truncated file for its end."""
    try:
        import zstandard
    except ImportError as error:
        raise DataError(
            f"{name} is compressed with zstd, which needs a package: pip install 'trivet[zstd]'"
        ) from error
    decompressor = zstandard.ZstdDecompressor()
    frame = decompressor.decompressobj()
    inside = False
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
