"""Memory of training: freed memory is kept, and an error for lack of it names the setting."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import platform
from collections.abc import Iterator

import torch

from trivet.errors import ConfigError

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def refuse_too_many_windows(batch_windows: int) -> Iterator[None]:
    """Raise ``ConfigError`` that names the setting if torch runs out of memory."""
    try:
        yield
    except RuntimeError as error:
        # On a CPU the error has no class of its own.
        if not (isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)):
            raise
        raise ConfigError(
            f"optim.batch_windows ({batch_windows}) must be lower, or optim.checkpoint_layers=true "
            f"be set: {'. '.join(str(error).split('. ')[:2])}"
        ) from error


def keep_freed_memory() -> None:
    """Let glibc keep freed memory, since requesting it anew for each tensor slows torch on CPUs."""
    if platform.libc_ver()[0] != "glibc":
        return
    mallopt = ctypes.CDLL(None).mallopt
    trim_threshold, mmap_threshold, max_threshold = -1, -3, 2**31 - 1  # names of glibc's malloc.h
    if not (mallopt(mmap_threshold, max_threshold) and mallopt(trim_threshold, max_threshold)):
        logger.warning("glibc refused the malloc thresholds; training on a CPU will be slower")
