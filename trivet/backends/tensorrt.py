"""Run a TensorRT engine on an NVIDIA GPU.

An engine has several execution contexts, each with its own stream and pinned buffers, so that one
call is copied while another computes. Small calls are replayed as CUDA graphs.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from trivet.backends import cuda
from trivet.backends.profiles import (
    Sizes,
    choose_profile,
    cut,
    graph_sizes,
    max_positions,
    pad,
    padded_length,
    padding_step,
    shapes,
    sizes_of,
    windows_limit,
)
from trivet.bundle.backend_info import EngineInfo
from trivet.bundle.info import INPUTS, OUTPUTS
from trivet.data.windows import Windows
from trivet.errors import BackendError
from trivet.model.aggregate import Outputs, outputs_from

logger = logging.getLogger(__name__)

CONTEXTS = 2

_DTYPES: dict[str, type[np.generic]] = {"int64": np.int64, "float32": np.float32}
_DTYPE_OF = {info.name: _DTYPES[info.dtype] for info in (*INPUTS, *OUTPUTS)}
_LEVELS = {"INTERNAL_ERROR": logging.ERROR, "ERROR": logging.ERROR, "WARNING": logging.WARNING}


def load_tensorrt() -> Any:
    """Return the module ``tensorrt``.

    Raises:
        BackendError: It is not installed.
    """
    try:
        import tensorrt
    except ImportError as error:
        raise BackendError(f"TensorRT is not installed; {cuda.INSTALL}") from error
    return tensorrt


def make_logger(tensorrt: Any) -> Any:
    """Return a TensorRT logger that writes to this module's logger."""

    class Log(tensorrt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            tensorrt.ILogger.__init__(self)

        def log(self, severity: Any, message: str) -> None:
            logger.log(_LEVELS.get(severity.name, logging.DEBUG), "TensorRT: %s", message)

    return Log()


class TensorRTBackend:
    """One engine on one GPU; ``run`` may be called from several threads.

    Attributes:
        inputs: Fields of ``Windows`` that the engine reads.
        workers: Number of concurrent calls.
    """

    def __init__(self, plan: bytes, info: EngineInfo, contexts: int = CONTEXTS) -> None:
        """Load an engine.

        Args:
            plan: The serialized engine from this machine's own cache, because it contains code.
            info: Description of the engine.
            contexts: Number of concurrent calls.

        Raises:
            BackendError: TensorRT or a GPU is missing, or TensorRT refuses the engine.
        """
        tensorrt, self._cuda = load_tensorrt(), cuda.load_runtime()
        self.name = f"tensorrt {info.precision} on {info.target.gpu}"
        self.positions = max_positions(info.profiles)
        self.step = padding_step(info.profiles)
        self.max_windows = windows_limit(info.profiles)
        self._logger = make_logger(tensorrt)
        self._runtime = tensorrt.Runtime(self._logger)
        self._engine = self._runtime.deserialize_cuda_engine(plan)
        if self._engine is None:
            raise BackendError(
                f"TensorRT {tensorrt.__version__} refuses the engine built by "
                f"{info.target.tensorrt} on {info.target.gpu}; build it again: trivet export "
                "tensorrt BUNDLE --data DATA"
            )
        names = {self._engine.get_tensor_name(i) for i in range(self._engine.num_io_tensors)}
        self.inputs = tuple(name for name in Windows._fields if name in names)
        self.workers = contexts
        self._contexts_free: queue.SimpleQueue[_Context] = queue.SimpleQueue()
        for _ in range(contexts):
            self._contexts_free.put(_Context(tensorrt, self._cuda, self._engine, info))

    def run(self, windows: Windows) -> Outputs:
        """Run the engine once; see ``Backend.run``."""
        worker = self._contexts_free.get()
        try:
            return worker.run(windows)
        finally:
            self._contexts_free.put(worker)


class _Call(NamedTuple):
    """A context prepared for one shape, its buffers, and the function that queues the call."""

    sizes: Sizes
    buffers: dict[str, cuda.Buffer]
    start: Callable[[], None]


class _Context:
    """One stream and its execution contexts; used by one thread at a time."""

    def __init__(self, tensorrt: Any, runtime: Any, engine: Any, info: EngineInfo) -> None:
        self._cuda, self._engine, self._profiles = runtime, engine, info.profiles
        self._stream = cuda.Stream(runtime)
        self._names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
        self._outputs = [name for name in Outputs._fields if name in self._names]
        # Allocates memory for the current profile, not for the largest.
        self._strategy = tensorrt.ExecutionContextAllocationStrategy.ON_PROFILE_CHANGE
        self._context = self._make_context()
        self._buffers: dict[str, cuda.Buffer] = {}
        # TensorRT needs a separate context for each captured graph.
        self._recorded: dict[Sizes, _Call] = {}

    def run(self, windows: Windows) -> Outputs:
        """Pad windows to a shape of the engine, run it, and cut the outputs.

        Raises:
            BackendError: No profile takes them, or TensorRT or CUDA failed.
        """
        sizes = sizes_of(windows)
        profile = choose_profile(self._profiles, sizes)
        fixed = graph_sizes(self._profiles[profile], sizes)
        if fixed is not None:
            call = self._recorded.get(fixed) or self._record(profile, fixed)
        else:
            length = padded_length(self._profiles[profile], sizes.L)
            call = self._prepare(self._context, profile, sizes._replace(L=length), self._buffers)
        return cut(self._run(call, pad(windows, call.sizes)), sizes)

    def _run(self, call: _Call, windows: Windows) -> Outputs:
        """Copy the inputs, queue the call, wait, and copy the outputs."""
        wanted = shapes(call.sizes)
        for name, array in windows._asdict().items():
            if name in call.buffers:
                np.copyto(call.buffers[name].view(wanted[name], _DTYPE_OF[name]), array)
        call.start()
        self._stream.wait()
        return outputs_from(
            {
                name: call.buffers[name].view(wanted[name], _DTYPE_OF[name]).copy()
                for name in self._outputs
            }
        )

    def _prepare(
        self, context: Any, profile: int, sizes: Sizes, buffers: dict[str, cuda.Buffer]
    ) -> _Call:
        """Set shapes and addresses of a call in a context."""
        # Set for every call, because another shape may have been set in between.
        placed = context.set_optimization_profile_async(profile, self._stream.handle)
        _must(placed, f"profile {profile} cannot be set")
        wanted = shapes(sizes)
        bytes_of = {
            name: int(np.prod(wanted[name])) * np.dtype(_DTYPE_OF[name]).itemsize
            for name in self._names
        }
        for name, size in bytes_of.items():
            if name not in buffers or buffers[name].size < size:
                if name in buffers:
                    buffers.pop(name).free()
                buffers[name] = cuda.Buffer(self._cuda, size)
            if name in Windows._fields:
                placed = context.set_input_shape(name, wanted[name])
                _must(placed, f"{name} cannot be of shape {wanted[name]}")
            placed = context.set_tensor_address(name, buffers[name].device)
            _must(placed, f"{name} cannot be placed")
        try:
            missing = context.infer_shapes()
        except RuntimeError as error:
            raise BackendError(
                f"TensorRT: output shapes for {sizes} are unknown: {error}"
            ) from error
        _must(not missing, f"shapes are missing: {', '.join(missing)}")
        for name in self._outputs:
            shape = tuple(context.get_tensor_shape(name))
            _must(shape == wanted[name], f"{name} is of shape {shape} instead of {wanted[name]}")

        def start() -> None:
            for name in self._names:
                if name in Windows._fields:
                    self._stream.copy_in(buffers[name], bytes_of[name])
            _must(context.execute_async_v3(self._stream.handle), f"it failed on {sizes}")
            for name in self._outputs:
                self._stream.copy_out(buffers[name], bytes_of[name])

        return _Call(sizes, buffers, start)

    def _record(self, profile: int, sizes: Sizes) -> _Call:
        """Capture a small call as a CUDA graph."""
        call = self._prepare(self._make_context(), profile, sizes, {})
        for name in Windows._fields:
            if name in call.buffers:
                buffer = call.buffers[name]
                np.copyto(buffer.view((buffer.size,), np.uint8), 0)
        call.start()  # the first run of a shape may allocate, which cannot be captured
        self._stream.wait()
        recorded = call._replace(start=self._stream.capture(call.start))
        self._recorded[sizes] = recorded
        return recorded

    def _make_context(self) -> Any:
        context = self._engine.create_execution_context(self._strategy)
        _must(context is not None, "no context can be made")
        return context


def _must(fine: Any, fault: str) -> None:
    """Raise ``BackendError`` if a TensorRT call returned false; its log has the reason."""
    if not fine:
        raise BackendError(f"TensorRT: {fault}; its log says why (-v)")
