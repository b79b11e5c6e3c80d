"""An output file that one process appends to, synced to the disk, and why a run stops."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from trivet.errors import DataError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Output:
    """An output file, locked against other processes until it is closed.

    Attributes:
        path: Path of the file.
        size: Bytes that are certainly on the disk.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the file, and lock it.

        Raises:
            DataError: The file cannot be written.
            OutputLockedError: Another process is writing it.
        """
        self.path = path
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
            self._file = os.fdopen(descriptor, "r+b", buffering=0)
        except OSError as error:
            raise DataError(f"{path}: cannot be written: {error.strerror or error}") from error
        try:
            _lock(self._file.fileno())
        except OSError as error:
            self._file.close()
            raise OutputLockedError(
                f"{path}: another process writes it now; wait for that one, or choose another --out"
            ) from error
        self.size = self._file.seek(0, os.SEEK_END)

    def cut(self, size: int) -> None:
        """Truncate the file to its first ``size`` bytes."""
        self._file.truncate(size)
        self.size = self._file.seek(size)

    def append(self, content: bytes) -> None:
        """Append and sync; on a full disk the file is truncated to its size before."""
        before = self.size
        try:
            with raise_on_full_disk(self.path):
                rest = memoryview(content)
                while rest:
                    rest = rest[self._file.write(rest) :]
                os.fsync(self._file.fileno())
        except OutputFullError:
            self.cut(before)
            raise
        self.size = before + len(content)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


@contextlib.contextmanager
def raise_on_full_disk(path: Path) -> Iterator[None]:
    """Turn the errors of a full disk into ``OutputFullError``."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise OutputFullError(
            f"{path}: {error.strerror}; the verdicts so far are kept: free some space, and "
            "repeat the command"
        ) from error


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        # Windows locks also prevent reading, so lock a byte far behind the end of the file.
        os.lseek(descriptor, 1 << 62, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class EmptyInputError(DataError):
    """The input has no rows."""


class OutputFullError(OSError):
    """The disk or the quota is full; the run can be resumed."""


class OutputLockedError(DataError):
    """Another process is writing this output."""


class RunChangedError(DataError):
    """The output belongs to a run with another input, bundle or setting."""
