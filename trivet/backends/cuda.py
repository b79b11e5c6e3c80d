"""CUDA streams, pinned buffers and captured graphs for TensorRT engines.

``cuda.bindings`` is imported here only, when an engine is loaded or built.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from trivet.errors import BackendError, install_line

# CUDA version of the packages of the extra `tensorrt`.
BUILT_FOR = "13.0"
INSTALL = install_line("tensorrt")


def load_runtime() -> Any:
    """Return ``cuda.bindings.runtime``.

    Raises:
        BackendError: It is not installed, or there is no driver or no GPU.
    """
    try:
        from cuda.bindings import runtime
    except ImportError as error:
        raise BackendError(f"cuda-bindings is not installed; {INSTALL}") from error
    check(runtime, runtime.cudaGetDeviceCount())  # an error where there is no GPU
    return runtime


def check(runtime: Any, answer: tuple[Any, ...]) -> Any:
    """Return the results of a CUDA call without its status.

    Raises:
        BackendError: The status is an error; the message has CUDA's description.
    """
    status, *values = answer
    if status != runtime.cudaError_t.cudaSuccess:
        _, words = runtime.cudaGetErrorString(status)
        text = words.decode() if isinstance(words, bytes) else str(words)
        raise BackendError(f"CUDA failed: {text} ({int(status)})")
    return values[0] if len(values) == 1 else tuple(values)


def describe_device(runtime: Any) -> tuple[str, str]:
    """Return name and compute capability of the current GPU: ``("NVIDIA L4", "8.9")``."""
    device = check(runtime, runtime.cudaGetDevice())
    properties = check(runtime, runtime.cudaGetDeviceProperties(device))
    name = properties.name
    text = name.decode() if isinstance(name, bytes) else str(name)
    return text.rstrip("\0"), f"{properties.major}.{properties.minor}"


class Stream:
    """A CUDA stream."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self._stream = check(
            runtime, runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking)
        )
        self.handle = int(self._stream)

    def wait(self) -> None:
        """Wait until all queued work is done.

        Raises:
            BackendError: Some of the work failed.
        """
        check(self._runtime, self._runtime.cudaStreamSynchronize(self._stream))

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """Capture what ``work`` queues as a CUDA graph; return a function that queues the graph.

        Raises:
            BackendError: Some of the work cannot be captured.
        """
        runtime = self._runtime
        mode = runtime.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        check(runtime, runtime.cudaStreamBeginCapture(self._stream, mode))
        try:
            work()
        finally:  # a stream that is still capturing takes no other work
            recorded = runtime.cudaStreamEndCapture(self._stream)
        graph = check(runtime, recorded)
        replayable = check(runtime, runtime.cudaGraphInstantiate(graph, 0))
        check(runtime, runtime.cudaGraphDestroy(graph))

        def replay() -> None:
            check(runtime, runtime.cudaGraphLaunch(replayable, self._stream))

        return replay

    def copy_in(self, buffer: Buffer, size: int) -> None:
        """Queue the copy of ``size`` bytes to the GPU."""
        kind = self._runtime.cudaMemcpyKind.cudaMemcpyHostToDevice
        copied = self._runtime.cudaMemcpyAsync(buffer.device, buffer.host, size, kind, self._stream)
        check(self._runtime, copied)

    def copy_out(self, buffer: Buffer, size: int) -> None:
        """Queue the copy of ``size`` bytes from the GPU."""
        kind = self._runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
        copied = self._runtime.cudaMemcpyAsync(buffer.host, buffer.device, size, kind, self._stream)
        check(self._runtime, copied)


class Buffer:
    """GPU memory with a pinned host copy; ``device`` and ``host`` are their addresses."""

    def __init__(self, runtime: Any, size: int) -> None:
        self.size = max(1, size)
        self.host = int(
            check(runtime, runtime.cudaHostAlloc(self.size, runtime.cudaHostAllocDefault))
        )
        try:
            self.device = int(check(runtime, runtime.cudaMalloc(self.size)))
        except BackendError:
            check(runtime, runtime.cudaFreeHost(self.host))
            raise
        self._free = weakref.finalize(self, _free_both, runtime, self.device, self.host)
        self._free.atexit = False  # the driver frees all memory with the process

    def view(self, shape: tuple[int, ...], dtype: type[np.generic]) -> npt.NDArray[Any]:
        """Return the start of the host copy as an array, valid as long as the buffer."""
        values = int(np.prod(shape))
        raw = (ctypes.c_char * (values * np.dtype(dtype).itemsize)).from_address(self.host)
        return np.frombuffer(memoryview(raw), dtype=dtype).reshape(shape)

    def free(self) -> None:
        """Free both."""
        self._free()


def _free_both(runtime: Any, device: int, host: int) -> None:
    check(runtime, runtime.cudaFree(device))
    check(runtime, runtime.cudaFreeHost(host))
