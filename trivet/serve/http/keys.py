"""API keys from a file, read again when it changes; only digests are kept, never logged."""

from __future__ import annotations

import hashlib
import hmac
import logging
import stat
from pathlib import Path

from trivet.errors import ConfigError

logger = logging.getLogger(__name__)

_State = tuple[int, int, int]


class KeyRing:
    """API keys; several are valid at a time, so that they can be rotated."""

    def __init__(self, path: Path, digests: tuple[bytes, ...], seen: _State) -> None:
        self._path = path
        self._digests = digests
        self._seen = seen

    @classmethod
    def read(cls, path: Path) -> KeyRing:
        """Read a file with one key per line; empty lines and lines that begin with # are skipped.

        A warning is logged if every user of the machine can read it.

        Raises:
            ConfigError: The file cannot be read, holds no key, or a key that no header can carry;
                the message names the line and never the key.
        """
        ring = cls(path, *_read(path))
        if path.stat().st_mode & stat.S_IROTH:
            logger.warning("%s: every user of this machine can read the keys; chmod 600 it", path)
        return ring

    def __len__(self) -> int:
        return len(self._digests)

    def accepts(self, authorization: str | None) -> bool:
        """Return whether a header ``Bearer KEY`` has a key of the file, which may have changed."""
        self._reload()
        scheme, _, key = (authorization or "").partition(" ")
        digest = _digest(key.strip())
        # All are compared, so that the time taken does not tell which one was nearly right.
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        return scheme.lower() == "bearer" and any(matches)

    def _reload(self) -> None:
        """Read the file again if it changed; if that fails the keys stay as they were."""
        try:
            seen = _state(self._path)
        except OSError:
            seen = (0, 0, 0)
        if seen == self._seen:
            return
        self._seen = seen  # also if reading fails: a broken file is logged once
        try:
            self._digests, self._seen = _read(self._path)
        except ConfigError as error:
            logger.error("the keys stay as they were: %s", error)
        else:
            logger.info("%s: read again, %d keys", self._path, len(self))


def _read(path: Path) -> tuple[tuple[bytes, ...], _State]:
    """Return the digests of a file's keys, and the state of the file."""
    try:
        seen = _state(path)
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{path}: the keys cannot be read: {reason}") from error
    digests = []
    for number, line in enumerate(text.split("\n"), start=1):
        key = line.strip()
        if not key or key.startswith("#"):
            continue
        if not key.isascii() or not key.isprintable() or " " in key:
            raise ConfigError(
                f"{path}: line {number} is not a key that a header can carry; keys are printable "
                "ASCII without spaces, one per line"
            )
        digests.append(_digest(key))
    if not digests:
        raise ConfigError(f"{path}: holds no key; write one per line")
    return tuple(digests), seen


def _state(path: Path) -> _State:
    """Return what changes when a file is written or replaced."""
    info = path.stat()
    return info.st_mtime_ns, info.st_size, info.st_ino


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
