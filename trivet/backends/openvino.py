"""OpenVINO on the CPU, a faster backend.

It reads its own format, or a graph of ONNX Runtime: ``model.int8.onnx`` becomes the same int8
matmuls with a range for every token.
"""

from __future__ import annotations

import logging
import math
import queue
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trivet.backends.backend import (
    POSITIONS,
    LoadedBackend,
    call_error,
    check_ends,
    check_self_test,
    choose_graph,
    threads_per_worker,
)
from trivet.backends.onnx_runtime import quick_sums_overflow
from trivet.backends.profiles import cut, pad, sizes_of
from trivet.bundle.bundle import Bundle
from trivet.data.windows import Windows
from trivet.errors import BackendError, BundleError, install_line
from trivet.model.aggregate import Outputs, outputs_from
from trivet.settings import Precision

logger = logging.getLogger(__name__)


_DTYPES: dict[str, type[np.generic]] = {"i64": np.int64, "i32": np.int32, "f32": np.float32}


class OpenVinoBackend:
    """One compiled model; ``run`` may be called from several threads.

    Attributes:
        positions: Maximum positions of one call: one window of 512.
        step: Windows are padded to a multiple of this many positions. Every new length is
            compiled, which costs a third of a call, so there must be few.
        max_windows: Maximum windows of one call.
        bf16: Whether operators that are not int8 run in bf16.
        workers: Number of calls that may run at once.
    """

    positions = POSITIONS
    step = 32
    max_windows = 16

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
        # OpenVINO reads garbage for an id beyond its table, without an error.
        if ids.min() < 0 or (self._vocabulary is not None and ids.max() >= self._vocabulary):
            known = f"0 to {(self._vocabulary or 0) - 1}; the tokenizer belongs to another model"
            reason = f"token ids from {ids.min()} to {ids.max()}, but it knows {known}"
            raise call_error(self.name, windows, reason)
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
            outputs = outputs_from({name: np.array(answer[name]) for name in self._outputs})
        except RuntimeError as error:
            raise call_error(self.name, windows, error) from error
        finally:
            self._idle.put(request)
        return cut(outputs, sizes_of(windows))

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
    lengths = []
    for node in model.get_ops():
        if node.get_type_name() != "Gather":
            continue
        index, table = node.input_value(1).get_node(), node.input_value(0).get_partial_shape()
        if index.get_type_name() == "Convert":
            index = index.input_value(0).get_node()
        if index.get_type_name() == "Parameter" and "input_ids" in index.output(0).names:
            lengths.append(table[0].get_length())
    return min(lengths, default=None)


class OpenVinoChoice(NamedTuple):
    """Model to load; ``exported`` if ``trivet export`` measured it: the rest may run in bf16."""

    file: str
    weights: str | None
    precision: Precision
    exported: bool


def choose_for_openvino(bundle: Bundle, precision: Precision | None) -> OpenVinoChoice:
    """Return the model that export chose; without a choice, or against it, a graph of the bundle.

    On a processor without VNNI, int8 sums overflow in OpenVINO, which has no other kernels. There
    int8 runs only if its weights are so small that sums fit, or if it was measured and chosen on
    such a processor.

    Raises:
        BundleError: The bundle has no such model, or none that this processor runs correctly.
    """
    kept = bundle.info.openvino
    if (
        kept is not None
        and precision in (None, kept.precision)
        # This processor computes the same as when the model was measured.
        and (kept.precision != "int8" or not (kept.exact_sums and quick_sums_overflow()))
    ):
        return OpenVinoChoice(kept.file, kept.weights, kept.precision, exported=True)
    if precision not in ("int8", "fp32", None):
        raise BundleError(
            f"{bundle.folder}: no {precision} for OpenVINO; use int8 or fp32, or run `trivet "
            f"export openvino {bundle.as_argument} --data DATA`"
        )
    graph = choose_graph(bundle, precision)
    if graph.precision == "int8" and not graph.sums_fit and quick_sums_overflow():
        if precision is not None or all(graph.precision != "fp32" for graph in bundle.info.graphs):
            raise BundleError(
                f"{bundle.path(graph.file)}: int8 sums overflow in OpenVINO on this processor, "
                "which has no VNNI; take --backend onnx, whose int8 is exact here, or --precision "
                "fp32 of a bundle that has it"
            )
        graph = choose_graph(bundle, "fp32")
    return OpenVinoChoice(graph.file, None, graph.precision, exported=False)


def load_for_openvino(
    bundle: Bundle,
    threads: int | None = None,
    precision: Precision | None = None,
    workers: int = 1,
) -> LoadedBackend:
    """Load a bundle into OpenVINO, and run the self-test on it.

    The arguments are those of ``load_backend``.

    Raises:
        BundleError: The bundle has no such model, or it fails the self-test.
        BackendError: OpenVINO is not installed.
    """
    choice = choose_for_openvino(bundle, precision)
    if precision is None and choice.precision == "fp32":
        logger.warning("%s: OpenVINO runs it in fp32", bundle.folder)
    if choice.precision == "int8" and quick_sums_overflow():
        logger.warning(
            "%s: OpenVINO's int8 is slow on this processor, which has no VNNI; --backend onnx is "
            "faster",
            bundle.folder,
        )
    kept = bundle.info.openvino if choice.exported else None
    # Measured on labelled rows, int8 matmuls with the rest in bf16 lose no more than an export may
    # (docs/export.md); a bundle whose self-test fails so runs the rest in fp32.
    bf16 = choice.exported or choice.precision == "int8"
    while True:
        backend = OpenVinoBackend(
            bundle.path(choice.file),
            bundle.path(choice.weights) if choice.weights else None,
            window=bundle.info.window.size,
            bf16=bf16,
            threads=threads,
            workers=workers,
        )
        try:
            check_self_test(backend, bundle, kept.answers(backend.bf16) if kept else choice.file)
        except BundleError:
            if kept is not None or not backend.bf16:
                raise
            bf16 = False
            continue
        return LoadedBackend(backend, choice.precision)
