"""ONNX Runtime, the default backend; on the CPU unless told otherwise."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import platform
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from trivet.backends.backend import call_error, check_ends, cores, threads_per_worker
from trivet.bundle.bundle import EXTERNAL_SUFFIX
from trivet.data.windows import Windows
from trivet.errors import BundleError
from trivet.model.aggregate import Outputs, outputs_from

_DTYPES: dict[str, type[np.generic]] = {
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(float)": np.float32,
}
_ERRORS_ONLY = 3
# Smaller graphs (in bytes) are loaded a second time; larger ones would need too much memory.
_SMALL = 50_000_000
# Maximum threads of one call; more were never measured to help.
_MAX_THREADS = 8


class OnnxRuntimeBackend:
    """One ONNX graph; ``run`` and ``run_all_threads`` may be called from several threads.

    Workers share one session, in which each call runs on its share of the threads. A small graph
    is loaded into a second session, whose calls run on the threads of all workers. Both give the
    same bits.
    """

    def __init__(
        self,
        path: Path,
        threads: int | None = None,
        workers: int = 1,
        *,
        sums_fit: bool = False,
        providers: Sequence[tuple[str, dict[str, Any]]] = (),
    ) -> None:
        """Load the graph.

        Args:
            path: ``.onnx`` file of a bundle, already checked against its manifest.
            threads: Threads of all workers; ``None`` means one for each core.
            workers: Calls that run at once, each on its share of the threads.
            sums_fit: Whether sums of its int8 matmuls are known to fit in 16 bits, which loads
                faster on some processors.
            providers: Execution providers with their options, before that of the CPU.

        Raises:
            BundleError: The file is not a graph, or its inputs or outputs do not fit.
            ValueError: ``threads`` is below 1, or below ``workers``.
        """
        per_worker = threads_per_worker(threads, workers)
        self._session = self._all_threads = _open(path, per_worker, sums_fit, providers=providers)
        self.providers: list[str] = self._session.get_providers()
        apart = path.with_name(path.name + EXTERNAL_SUFFIX).exists()
        if workers > 1 and path.stat().st_size <= _SMALL and not apart:
            # Threads that spin while they wait would take the cores of the workers.
            all_threads = max(per_worker, min(threads or cores(), _MAX_THREADS))
            self._all_threads = _open(path, all_threads, sums_fit, spin=False)
        self.name = f"onnxruntime {path.name}"
        self.workers = workers
        inputs = {node.name: node.type for node in self._session.get_inputs()}
        self._outputs = [node.name for node in self._session.get_outputs()]
        check_ends(path.name, set(inputs), set(self._outputs))
        unknown = {name: kind for name, kind in inputs.items() if kind not in _DTYPES}
        if unknown:
            raise BundleError(f"{path.name}: inputs of an unsupported type: {unknown}")
        self._inputs = {name: _DTYPES[kind] for name, kind in inputs.items()}
        self.inputs = tuple(name for name in Windows._fields if name in self._inputs)

    def run(self, windows: Windows) -> Outputs:
        """Run the graph once, on the threads of a worker; see ``Backend.run``."""
        return self._run(self._session, windows)

    def run_all_threads(self, windows: Windows) -> Outputs:
        """Run the graph once, on the threads of all workers if it is small; see ``run``."""
        return self._run(self._all_threads, windows)

    def _run(self, session: onnxruntime.InferenceSession, windows: Windows) -> Outputs:
        arrays = windows._asdict()
        feed = {
            name: np.ascontiguousarray(arrays[name], dtype=dtype)
            for name, dtype in self._inputs.items()
        }
        try:
            with denormals_as_zero():
                answer = session.run(self._outputs, feed)
        except Exception as error:  # the library's errors share no base class but this one
            raise call_error(self.name, windows, error) from error
        return outputs_from(dict(zip(self._outputs, answer, strict=True)))


def _open(
    path: Path,
    threads: int,
    sums_fit: bool,
    *,
    spin: bool = True,
    providers: Sequence[tuple[str, dict[str, Any]]] = (),
) -> onnxruntime.InferenceSession:
    """Load a graph; with 0 threads ONNX Runtime chooses their number.

    Raises:
        BundleError: ONNX Runtime refuses it.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = _ERRORS_ONLY
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Every shape would get a memory plan of its own.
    options.enable_mem_pattern = False
    # Dynamic blocks: a thread that other work holds up leaves its share to the others.
    options.add_session_config_entry("session.dynamic_block_base", "4")
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spin else "0")
    if can_flush():  # for the session's own threads
        options.add_session_config_entry("session.set_denormal_as_zero", "1")
    try:
        if not sums_fit:
            keep_int8_sums_exact(options)
        with denormals_as_zero():  # restores the mode of this thread, which the option changes
            return onnxruntime.InferenceSession(
                str(path), sess_options=options, providers=[*providers, "CPUExecutionProvider"]
            )
    except Exception as error:  # the library's errors share no base class but this one
        raise BundleError(f"{path.name}: ONNX Runtime refuses it: {error}") from error


# MatMulInteger of uint8 [M, K] by int8 [K, N], opset 21, as `onnx` writes it.
PROBE = bytes.fromhex(
    "080a3a500a180a01610a0162120163220d4d61744d756c496e74656765721201705a0f0a0161120a0a080802"
    "12040a000a005a0f0a0162120a0a08080312040a000a00620f0a0163120a0a08080612040a000a0042040a00"
    "1015"
)


def keep_int8_sums_exact(options: onnxruntime.SessionOptions) -> None:
    """Select the slower kernels if the fast ones overflow."""
    if quick_sums_overflow():
        options.add_session_config_entry("session.x64quantprecision", "1")


@functools.cache
def quick_sums_overflow() -> bool:
    """Return whether the sums of the largest products are wrong; takes milliseconds, cached."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(PROBE, options, providers=["CPUExecutionProvider"])
    left, right = np.full((4, 64), 255, np.uint8), np.full((64, 16), 127, np.int8)
    (sums,) = session.run(None, {"a": left, "b": right})
    exact = left.astype(np.int32) @ right.astype(np.int32)
    return not np.array_equal(sums, exact)


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
    """Compute with zero instead of denormal numbers in this thread, and restore its mode after.

    Masked keys keep attention weights of about 4e-39: ONNX Runtime's softmax computes no smaller
    ones. x86-64 processors take a hundred cycles for a product with such a number, which would
    nearly double the time of a padded call.
    """
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
