"""Text files in other encodings, read as UTF-8."""

from __future__ import annotations

import codecs
import io
from typing import IO, cast

from trivet.errors import DataError

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_PIECE = 1 << 16


def check_encoding(name: str | None) -> None:
    """Raise ``DataError`` if there is no such encoding of text."""
    try:
        if name is not None:
            "a".encode(name)
    except LookupError as error:
        raise DataError(
            f"no encoding {name!r}; there are utf-8, utf-16, cp1252, latin-1 and others of Python"
        ) from error


def as_utf8(file: IO[bytes], encoding: str | None = None) -> IO[bytes]:
    """Return the content of a text file in UTF-8.

    Args:
        file: Open file.
        encoding: Its encoding; ``None`` means UTF-8, or UTF-16 or UTF-32 if the first bytes show
            it. Reading raises ``ValueError`` where the content is of another.
    """
    if encoding is None:
        if not hasattr(file, "peek"):
            file = io.BufferedReader(cast(io.RawIOBase, file))
        encoding = _recognised(cast(io.BufferedReader, file).peek(4)[:4])
    if encoding is None or codecs.lookup(encoding).name == "utf-8":
        return file
    return io.BufferedReader(_Recoded(file, encoding), _PIECE)


def _recognised(start: bytes) -> str | None:
    for mark, name in _MARKS:
        if start.startswith(mark):
            return name
    if len(start) == 4 and start[1] == start[3] == 0 and start[0] and start[2]:
        return "utf-16-le"
    if len(start) == 4 and start[0] == start[2] == 0 and start[1] and start[3]:
        return "utf-16-be"
    return None


class _Recoded(io.RawIOBase):
    """The content of a file in UTF-8."""

    def __init__(self, file: IO[bytes], encoding: str) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._waiting = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        target = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        while not self._waiting:
            piece = self._file.read(_PIECE)
            self._waiting = self._decoder.decode(piece, final=not piece).encode()
            if not piece:
                break
        count = min(len(target), len(self._waiting))
        target[:count] = self._waiting[:count]
        self._waiting = self._waiting[count:]
        return count
