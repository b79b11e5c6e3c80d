"""Freed memory that the process keeps, for speed on CPUs."""

from __future__ import annotations

import ctypes
import logging
import platform

logger = logging.getLogger(__name__)


def keep_freed_memory() -> None:
    """Let glibc keep freed memory, since requesting it anew for each tensor slows torch on CPUs."""
    if platform.libc_ver()[0] != "glibc":
        return
    mallopt = ctypes.CDLL(None).mallopt
    trim_threshold, mmap_threshold, most = -1, -3, 2**31 - 1  # names of glibc's malloc.h
    if not (mallopt(mmap_threshold, most) and mallopt(trim_threshold, most)):
        logger.warning("glibc refused the malloc thresholds; training on a CPU will be slower")
