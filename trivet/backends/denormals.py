"""Denormal numbers as zero while a graph runs, on x86-64 Linux.

Masked keys keep attention weights of about 4e-39: ONNX Runtime's softmax computes no smaller ones.
x86-64 processors take a hundred cycles for a product with such a number, which would nearly double
the time of a padded call.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import platform
import sys
from collections.abc import Iterator

# ``fenv_t`` of glibc and musl: 28 bytes of the x87 unit, then the control word of the SSE unit.
_SIZE, _CONTROL = 32, 28
_AS_ZERO = 0x8040  # flush results to zero (bit 15), read operands as zero (bit 6)


@functools.cache
def _library() -> ctypes.CDLL | None:
    """Return the C library's functions, or None where the layout of ``fenv_t`` is another one."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    for name in (None, "libm.so.6"):  # what the process has loaded, then glibc's own file
        with contextlib.suppress(AttributeError, OSError):
            library = ctypes.CDLL(name)
            if library.fegetenv and library.fesetenv:
                return library
    return None


def can_flush() -> bool:
    """Return whether ``denormals_as_zero`` has an effect here."""
    return _library() is not None


@contextlib.contextmanager
def denormals_as_zero() -> Iterator[None]:
    """Compute with zero instead of denormal numbers in this thread, and restore its mode after."""
    library = _library()
    if library is None:
        yield
        return
    before = ctypes.create_string_buffer(_SIZE)
    library.fegetenv(before)
    changed = ctypes.create_string_buffer(before.raw, _SIZE)
    control = ctypes.c_uint32.from_buffer(changed, _CONTROL)
    control.value |= _AS_ZERO
    library.fesetenv(changed)
    try:
        yield
    finally:
        library.fesetenv(before)
