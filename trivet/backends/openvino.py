"""OpenVINO on the CPU, a faster backend.

It reads its own format, or a graph of ONNX Runtime: ``model.int8.onnx`` becomes the same int8
matmuls with a range for every token.
"""

from __future__ import annotations

import math
import queue
from pathlib import Path
from typing import Any

import numpy as np

from trivet.backends.backend import POSITIONS, check_ends, threads_per_worker
from trivet.backends.profiles import cut, pad, sizes_of
from trivet.data.windows import Windows
from trivet.errors import BackendError, BundleError, install_line
from trivet.model.aggregate import Outputs, outputs_from

_DTYPES: dict[str, type[np.generic]] = {"i64": np.int64, "i32": np.int32, "f32": np.float32}


class OpenVinoBackend:
    """One compiled model; ``run`` may be called from several threads.

    Attributes:
        positions: Maximum positions of one call: one window of 512.
        step: Windows are padded to a multiple of this many positions. Every new length is
            compiled, which costs a third of a call, so there must be few.
        most_windows: Maximum windows of one call.
        bf16: Whether operators that are not int8 run in bf16.
        workers: Number of calls that may run at once.
    """

    positions = POSITIONS
    step = 32
    most_windows = 16

    def __init__(
        self,
        path: Path,
        weights: Path | None = None,
        *,
        window: int,
        bf16: bool = False,
        threads: int | None = None,
        workers: int = 1,
    ) -> None:
        """Load and compile a model.

        Args:
            path: ``.xml`` or ``.onnx`` file of a bundle, already checked against its manifest.
            weights: Weights of an ``.xml`` file.
            window: Maximum positions of a window.
            bf16: Whether operators that are not int8 may run in bf16, if the processor can.
            threads: Threads of all workers; ``None`` means one for each core.
            workers: Calls that run at once, each on its share of the threads.

        Raises:
            BundleError: OpenVINO refuses the file, or its inputs or outputs do not fit.
            BackendError: OpenVINO is not installed.
            ValueError: ``threads`` is below 1, or below ``workers``.
        """
        threads_in_a_call = threads_per_worker(threads, workers)
        openvino = load_openvino()
        core = openvino.Core()
        self.bf16 = bf16 and "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        settings = {
            "PERFORMANCE_HINT": "LATENCY" if workers == 1 else "THROUGHPUT",
            "NUM_STREAMS": workers,
            "INFERENCE_PRECISION_HINT": "bf16" if self.bf16 else "f32",
            **({"INFERENCE_NUM_THREADS": threads_in_a_call * workers} if threads_in_a_call else {}),
        }
        try:
            files = (str(path),) if weights is None else (str(path), str(weights))
            model = core.read_model(*files)
            self._compiled = core.compile_model(model, "CPU", settings)
        except RuntimeError as error:
            raise BundleError(f"{path.name}: OpenVINO refuses it: {error}") from error
        self.name = f"openvino {path.name}"
        self.workers = workers
        inputs = {port.any_name: port.get_element_type().to_string() for port in model.inputs}
        wanted = frozenset(Outputs._fields)
        self._outputs = {min(port.names & wanted, default=port.any_name) for port in model.outputs}
        check_ends(path.name, set(inputs), self._outputs)
        unknown = {name: kind for name, kind in inputs.items() if kind not in _DTYPES}
        if unknown:
            raise BundleError(f"{path.name}: inputs of an unsupported type: {unknown}")
        self._inputs = {name: _DTYPES[kind] for name, kind in inputs.items()}
        self._vocabulary = _count_words(model)
        self._window = window
        self._idle: queue.LifoQueue[Any] = queue.LifoQueue()

    def run(self, windows: Windows) -> Outputs:
        """Run the model once; see ``Backend.run``."""
        ids = windows.input_ids
        shape = "x".join(str(size) for size in ids.shape)
        # OpenVINO reads garbage for an id beyond its table, without an error.
        if ids.min() < 0 or (self._vocabulary is not None and ids.max() >= self._vocabulary):
            raise BackendError(
                f"{self.name} failed on {shape} window positions: token ids from {ids.min()} to "
                f"{ids.max()}, but it knows 0 to {(self._vocabulary or 0) - 1}; the tokenizer "
                "belongs to another model"
            )
        arrays = self._padded(windows)._asdict()
        feed = {
            name: np.ascontiguousarray(arrays[name], dtype=dtype)
            for name, dtype in self._inputs.items()
        }
        try:
            request = self._idle.get_nowait()
        except queue.Empty:
            request = self._compiled.create_infer_request()
        try:
            answer = request.infer(feed)
            found = outputs_from({name: np.array(answer[name]) for name in self._outputs})
        except RuntimeError as error:
            raise BackendError(
                f"{self.name} failed on {shape} window positions: {error}"
            ) from error
        finally:
            self._idle.put(request)
        return cut(found, sizes_of(windows))

    def _padded(self, windows: Windows) -> Windows:
        """Pad windows to the next compiled length."""
        sizes = sizes_of(windows)
        longer = min(math.ceil(sizes.L / self.step) * self.step, self._window)
        return windows if longer <= sizes.L else pad(windows, sizes._replace(L=longer))


def load_openvino() -> Any:
    """Return the module ``openvino``.

    Raises:
        BackendError: It is not installed.
    """
    try:
        import openvino
    except ImportError as error:
        raise BackendError(
            f"OpenVINO is not installed; {install_line('openvino')}; or use --backend onnx"
        ) from error
    return openvino


def _count_words(model: Any) -> int | None:
    """Return how many token ids the embedding tables of a model hold; ``None`` if none is found."""
    found = []
    for node in model.get_ops():
        if node.get_type_name() != "Gather":
            continue
        index, table = node.input_value(1).get_node(), node.input_value(0).get_partial_shape()
        if index.get_type_name() == "Convert":
            index = index.input_value(0).get_node()
        if index.get_type_name() == "Parameter" and "input_ids" in index.output(0).names:
            found.append(table[0].get_length())
    return min(found, default=None)
