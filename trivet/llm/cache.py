"""Answers that were paid for, in one SQLite file: a stopped run finds them again."""

from __future__ import annotations

import contextlib
import errno
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from trivet.errors import DataError
from trivet.llm.chat import ChatAnswer

_TABLE = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, model TEXT, input_tokens INTEGER, output_tokens INTEGER, answer TEXT
)
"""
_WAIT = 60.0  # seconds for another process that writes


class AnswerCache:
    """Answers by the digest of their request.

    An answer is on the disk when :meth:`put` returns, so a killed process loses none. Several
    threads and processes may use one file.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the file.

        Raises:
            DataError: The file cannot be opened, or is no cache.
            OSError: The disk is full.
        """
        self.path = path
        self._lock = threading.Lock()
        with self._one_error():
            self._connection = sqlite3.connect(path, timeout=_WAIT, check_same_thread=False)
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute(_TABLE)

    def get(self, key: str) -> ChatAnswer | None:
        """Return the answer to a request, marked as cached."""
        with self._lock, self._one_error():
            row = self._connection.execute(
                "SELECT answer FROM answers WHERE key = ?", [key]
            ).fetchone()
        return None if row is None else ChatAnswer.from_json(row[0])

    def put(self, key: str, model: str, answer: ChatAnswer) -> None:
        """Keep the answer of ``model``, as the request named it; ``OSError`` on a full disk."""
        row = (key, model, answer.input_tokens, answer.output_tokens, answer.to_json())
        with self._lock, self._one_error(), self._connection:
            self._connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?)", row)

    def count(self) -> int:
        """Return the number of answers."""
        with self._lock, self._one_error():
            row = self._connection.execute("SELECT count(*) FROM answers").fetchone()
        return int(row[0])

    def tokens(self, model: str) -> tuple[int, int]:
        """Return the tokens read and written for all answers of a model."""
        with self._lock, self._one_error():
            row = self._connection.execute(
                "SELECT coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0) "
                "FROM answers WHERE model = ?",
                [model],
            ).fetchone()
        return row[0], row[1]

    def close(self) -> None:
        """Close the file, once no other thread uses it."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _one_error(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                raise OSError(errno.ENOSPC, "No space left on device", str(self.path)) from error
            raise DataError(f"{self.path}: cannot be used as a cache ({error})") from error
