"""Decompression by the last suffix of a file's name."""

from __future__ import annotations

import contextlib
import gzip
import importlib
import lzma
import sys
import zlib
from typing import IO, Any, cast

from trivet.errors import DataError, install_line

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
                f"{install_line('zstd')}"
            )
        return cast(IO[bytes], _zstd.open(file, "rb"))
    return file
