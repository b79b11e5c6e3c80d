"""Content of files: decompressed by the last suffix of the name, and text as UTF-8."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import importlib
import io
import logging
import lzma
import re
import sys
import zlib
from collections.abc import Iterator
from typing import IO, Any, cast

from trivet.errors import DataError, install_line

logger = logging.getLogger(__name__)

ZSTD_MODULE = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
_zstd: Any = None
with contextlib.suppress(ImportError):
    _zstd = importlib.import_module(ZSTD_MODULE)

COMPRESSIONS = (".gz", ".xz", ".zst")
DAMAGE: tuple[type[Exception], ...] = (EOFError, OSError, lzma.LZMAError, zlib.error)
"""Exceptions that reading raises if a file is damaged."""
if _zstd is not None:
    DAMAGE += (_zstd.ZstdError,)


def decompress(file: IO[bytes], name: str) -> IO[bytes]:
    """Return the content of an open file; reading it raises one of ``DAMAGE`` if it is damaged.

    Raises:
        DataError: The compression needs a package that is not installed.
    """
    if name.endswith(".gz"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=file, mode="rb"))
    if name.endswith(".xz"):
        return lzma.open(file, "rb")
    if name.endswith(".zst"):
        if _zstd is None:
            raise DataError(
                f"{name} is compressed with zstd, which needs backports.zstd; "
                f"{install_line('files')}"
            )
        return cast(IO[bytes], _zstd.open(file, "rb"))
    return file


_NO_TEXT: tuple[tuple[bytes, str, str], ...] = (
    (b"PK\x03\x04", "a ZIP archive", "unpack it; if it is a spreadsheet, save it as .xlsx"),
    (
        b"SQLite format 3",
        "an SQLite database",
        "sqlite3 -json FILE 'SELECT ...' writes its rows",
    ),
    (b"ARROW1", "Arrow or Feather", "pandas.read_feather(FILE).to_parquet('log.parquet')"),
    (b"FEA1", "Feather", "pandas.read_feather(FILE).to_parquet('log.parquet')"),
    (
        b"\xff\xff\xff\xff",
        "an Arrow stream",
        "load_from_disk(FOLDER).to_parquet('log.parquet')",
    ),
    *(
        (bytes([128, protocol]), "a pickle, which may run code", "write its rows as JSON lines")
        for protocol in (2, 3, 4, 5)
    ),
    (b"PAR1", "Parquet", "give --format parquet, or name it .parquet"),
    (b"\x1f\x8b", "compressed with gzip", "name it .gz"),
    (b"(\xb5/\xfd", "compressed with zstd", "name it .zst"),
    (b"\xfd7zXZ\0", "compressed with xz", "name it .xz"),
    (b"BZh", "compressed with bzip2", "unpack it with bunzip2"),
    (b"\xd0\xcf\x11\xe0", "an old Excel file", "save it as .xlsx or .csv"),
    (b"%PDF", "a PDF", "write question, contexts and answer as rows of JSON or CSV"),
)
"""First bytes of files that are not text, the kind of file and the way out."""


_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_PIECE = 1 << 16
_SAMPLE = 1 << 18  # bytes from the first one beyond ASCII on that decide for an encoding
_SURE = 0.15  # confidence of the detector; it is lower where a few words are all that it has
_BEYOND_ASCII = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
    rb"|[\x80-\xff]"
)


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
            first characters beyond ASCII are not UTF-8, it means the one that ``chardet`` is sure
            of, else cp1252. A byte without meaning in such a one is read as U+FFFD.
        name: Name of the file in messages.

    Raises:
        DataError: By its first bytes the file is not text.
    """
    if not hasattr(file, "peek"):
        file = io.BufferedReader(cast(io.RawIOBase, file))
    start = cast(io.BufferedReader, file).peek(16)
    for first, kind, way_out in _NO_TEXT:
        if start.startswith(first):
            raise DataError(f"{name}: is {kind}, and not text; {way_out}")
    if encoding is None:
        encoding = _recognised(start[:4])
        if encoding is None:
            return io.BufferedReader(_Pieces(_guessed(file, name)), _PIECE)
    if encoding is None or codecs.lookup(encoding).name == "utf-8":
        return file
    return io.BufferedReader(_Pieces(_recoded(file, encoding)), _PIECE)


def _recognised(start: bytes) -> str | None:
    for mark, name in _MARKS:
        if start.startswith(mark):
            return name
    if len(start) == 4 and start[1] == start[3] == 0 and start[0] and start[2]:
        return "utf-16-le"
    if len(start) == 4 and start[0] == start[2] == 0 and start[1] and start[3]:
        return "utf-16-be"
    return None


class _Pieces(io.RawIOBase):
    """Pieces of a file's content, handed out as they are asked for."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._waiting = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        target = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        self._waiting = self._waiting or next(filter(None, self._pieces), b"")
        count = min(len(target), len(self._waiting))
        target[:count] = self._waiting[:count]
        self._waiting = self._waiting[count:]
        return count


def _recoded(
    file: IO[bytes], encoding: str, begins: bytes = b"", errors: str = "strict"
) -> Iterator[bytes]:
    """Yield the content of a file in UTF-8; ``begins`` are bytes already read from it."""
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    yield decoder.decode(begins).encode()
    while piece := file.read(_PIECE):
        yield decoder.decode(piece).encode()
    yield decoder.decode(b"", final=True).encode()


def _guessed(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Yield the content of a file in UTF-8, whose encoding shows where it leaves ASCII."""
    # Reads what is there: a pipe may hold one line for long.
    read = getattr(file, "read1", file.read)
    is_open = True  # whether all was ASCII so far
    while piece := read(_PIECE):
        if is_open and not piece.isascii():
            is_open = False
            if not _mostly_utf8(piece):
                piece += file.read(_SAMPLE)
                if encoding := _detected(piece, name):
                    yield from _recoded(file, encoding, piece, "replace")
                    return
        yield piece


def _detected(sample: bytes, name: str) -> str | None:
    """Return the encoding of a sample with bytes beyond ASCII; ``None`` if it is UTF-8."""
    if b"\0" in sample or _mostly_utf8(sample):
        return None
    import chardet  # takes a fifth of a second, which few files need

    ascii_bytes = len(sample) - len(sample.lstrip(bytes(range(128))))
    likely = chardet.detect(sample[ascii_bytes:], encoding_era=chardet.EncodingEra.MODERN_WEB)
    is_sure = likely["encoding"] and likely["confidence"] >= _SURE
    encoding = str(likely["encoding"]).lower() if is_sure else "cp1252"
    logger.info("%s: is not UTF-8; read as %s: --encoding NAME names another", name, encoding)
    return encoding


def _mostly_utf8(sample: bytes) -> bool:
    """Tell whether of the bytes beyond ASCII at least half form characters of UTF-8."""
    characters = _BEYOND_ASCII.findall(sample)
    whole = sum(len(character) > 1 for character in characters)
    return 2 * whole >= len(characters)
