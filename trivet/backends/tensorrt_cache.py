"""Cache of the TensorRT engines that this machine built.

An engine is code, so the folder must belong to the user and have mode 0700. Engines are found by
``tensorrt_info.engine_key`` and checked against their SHA-256.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path

from pydantic import ValidationError

from trivet.bundle.tensorrt_info import EngineInfo
from trivet.errors import BackendError, fault_words

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def default_folder() -> Path:
    """Return ``$TRIVET_CACHE``, or ``trivet/engines`` in the user's cache folder."""
    if own := os.environ.get("TRIVET_CACHE"):
        return Path(own)
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "trivet" / "engines"


class EngineCache:
    """Engines by key, each with its description."""

    def __init__(self, folder: Path | None = None) -> None:
        """Open a cache, creating its folder if needed.

        Raises:
            BackendError: The folder cannot be created, is a link, or is accessible to other users.
        """
        self.folder = folder = folder or default_folder()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise BackendError(f"{folder}: not a folder that can be created: {error}") from error
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise BackendError(f"{folder}: not a folder; engines are only kept in a folder")
        if hasattr(os, "getuid") and found.st_uid != os.getuid():
            raise BackendError(
                f"{folder}: belongs to user {found.st_uid}; an engine is code, and only your "
                "own is loaded. Set TRIVET_CACHE to a folder of yours"
            )
        if found.st_mode & _OTHERS:
            raise BackendError(
                f"{folder}: open to other users (mode {stat.S_IMODE(found.st_mode):04o}); an "
                f"engine is code. Make it yours alone: chmod 700 {folder}"
            )

    def put(self, plan: bytes, info: EngineInfo) -> Path:
        """Store an engine; its description is written last, so that half of it is never found."""
        path = self.folder / f"{info.key}.engine"
        path.with_suffix(".json").unlink(missing_ok=True)  # of the engine that is replaced
        self.write(path, plan)
        self.write(path.with_suffix(".json"), info.model_dump_json(indent=1).encode())
        return path

    def get(self, key: str) -> tuple[bytes, EngineInfo] | None:
        """Return the engine of a key and its description; ``None`` if there is none.

        Raises:
            BackendError: The engine is damaged or does not match its description.
        """
        path = self.folder / f"{key}.engine"
        described = path.with_suffix(".json")
        if not described.exists():
            return None
        try:
            info = EngineInfo.model_validate_json(described.read_bytes())
            plan = path.read_bytes()
        except (OSError, ValidationError) as error:
            said = fault_words(error, 1) if isinstance(error, ValidationError) else error.strerror
            raise BackendError(f"{described}: damaged, remove it: {said}") from error
        if info.key != key or hashlib.sha256(plan).hexdigest() != info.engine_sha256:
            raise BackendError(f"{path}: not the engine that {described.name} describes; remove it")
        return plan, info

    def timing(self) -> bytes:
        """Return the kernel timings of earlier builds; empty before the first."""
        path = self.folder / "timing.cache"
        return path.read_bytes() if path.exists() else b""

    def put_timing(self, measured: bytes) -> None:
        """Store the kernel timings of a build, which make the next one faster."""
        self.write(self.folder / "timing.cache", measured)

    def write(self, path: Path, content: bytes) -> None:
        """Write a file atomically with mode 0600."""
        handle, scratch = tempfile.mkstemp(dir=self.folder)  # made with mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            Path(scratch).replace(path)
        except BaseException:
            Path(scratch).unlink(missing_ok=True)
            raise
