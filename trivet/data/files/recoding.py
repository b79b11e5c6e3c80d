"""Text files in other encodings, read as UTF-8."""

from __future__ import annotations

import codecs
import io
import logging
import re
from typing import IO, cast

from trivet.errors import DataError

logger = logging.getLogger(__name__)

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_PIECE = 1 << 16
_SAMPLE = 1 << 20  # bytes from the first one beyond ASCII on that decide for or against UTF-8
_BEYOND_ASCII = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
    rb"|[\x80-\xff]"
)
_NOT_CP1252 = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")


def check_encoding(name: str | None) -> None:
    """Raise ``DataError`` if there is no such encoding of text."""
    try:
        if name is not None:
            "a".encode(name)
    except LookupError as error:
        raise DataError(
            f"no encoding {name!r}; there are utf-8, utf-16, cp1252, latin-1 and others of Python"
        ) from error


def as_utf8(file: IO[bytes], encoding: str | None = None, name: str = "the input") -> IO[bytes]:
    """Return the content of a text file in UTF-8.

    Args:
        file: Open file.
        encoding: Its encoding; reading raises ``ValueError`` where the content is of another.
            ``None`` means UTF-8, or UTF-16 or UTF-32 if the first bytes show it; where most of the
            first characters beyond ASCII are not UTF-8, it means cp1252, or latin-1 if a byte has
            no meaning in that.
        name: Name of the file in the message about such an encoding.
    """
    if encoding is None:
        if not hasattr(file, "peek"):
            file = io.BufferedReader(cast(io.RawIOBase, file))
        encoding = _recognised(cast(io.BufferedReader, file).peek(4)[:4])
        if encoding is None:
            return io.BufferedReader(_Guessed(file, name), _PIECE)
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


class _Waiting(io.RawIOBase):
    """The content of a file, handed out as it is asked for."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._waiting = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        target = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        while not self._waiting:
            piece, ended = self._next()
            self._waiting = piece
            if ended:
                break
        count = min(len(target), len(self._waiting))
        target[:count] = self._waiting[:count]
        self._waiting = self._waiting[count:]
        return count

    def _next(self) -> tuple[bytes, bool]:
        """Return the next bytes, and whether the file has ended."""
        raise NotImplementedError


class _Recoded(_Waiting):
    """The content of a file in UTF-8."""

    def __init__(self, file: IO[bytes], encoding: str) -> None:
        super().__init__(file)
        self._decoder = codecs.getincrementaldecoder(encoding)()

    def _next(self) -> tuple[bytes, bool]:
        piece = self._file.read(_PIECE)
        return self._decoder.decode(piece, final=not piece).encode(), not piece


class _Guessed(_Waiting):
    """The content of a file in UTF-8, whose encoding shows where it leaves ASCII."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        super().__init__(file)
        self._name = name
        self._is_utf8: bool | None = None  # None while all is ASCII
        self._table = ""  # character of each byte, if it is not

    def _next(self) -> tuple[bytes, bool]:
        # What is there: a pipe may hold one line for long.
        read = getattr(self._file, "read1", self._file.read)
        piece: bytes = read(_PIECE)
        if self._is_utf8 is None and not piece.isascii():
            if _mostly_utf8(piece):
                self._is_utf8 = True
            else:
                piece += self._file.read(_SAMPLE)
                self._decide(piece)
        if self._table:
            return codecs.charmap_decode(piece, "strict", self._table)[0].encode(), not piece
        return piece, not piece

    def _decide(self, sample: bytes) -> None:
        self._is_utf8 = b"\0" in sample or _mostly_utf8(sample)
        if self._is_utf8:
            return
        encoding = "latin-1" if _NOT_CP1252.search(sample) else "cp1252"
        every = (bytes([byte]) for byte in range(256))
        self._table = "".join(
            byte.decode(encoding, "ignore") or byte.decode("latin-1") for byte in every
        )
        logger.info(
            "%s: is not UTF-8; read as %s: --encoding NAME names another", self._name, encoding
        )


def _mostly_utf8(sample: bytes) -> bool:
    """Tell whether of the bytes beyond ASCII at least half form characters of UTF-8."""
    found = _BEYOND_ASCII.findall(sample)
    whole = sum(len(character) > 1 for character in found)
    return 2 * whole >= len(found)
