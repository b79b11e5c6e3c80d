"""Loading of a bundle's graph into ONNX Runtime, on a GPU if ONNX Runtime can use one."""

from __future__ import annotations

import logging
from pathlib import Path

import onnxruntime

from trivet.backends.device import find_gpu
from trivet.backends.graph_choice import (
    LoadedBackend,
    Precision,
    check_self_test,
    choose_gpu_graph,
    choose_graph,
)
from trivet.backends.onnx_runtime import OnnxRuntimeBackend
from trivet.backends.profiles import MOST_WINDOWS, POSITIONS, STEP
from trivet.bundle.bundle import Bundle
from trivet.data.windows import Windows
from trivet.errors import BackendError, BundleError
from trivet.model.aggregate import Outputs

logger = logging.getLogger(__name__)

CUDA = "CUDAExecutionProvider"


class OnnxGpuBackend:
    """One ONNX graph on a GPU; ``run`` may be called from several threads."""

    positions, step, most_windows = POSITIONS, STEP, MOST_WINDOWS

    def __init__(self, path: Path, gpu: int) -> None:
        """Load the ``.onnx`` file of a bundle, already checked against its manifest.

        Raises:
            BundleError: The file is no graph, or its inputs or outputs do not fit.
            BackendError: ONNX Runtime cannot use the GPU.
        """
        offered = CUDA in onnxruntime.get_available_providers()
        if offered:
            if hasattr(onnxruntime, "preload_dlls"):  # from 1.21 on
                onnxruntime.preload_dlls()  # finds the CUDA libraries that pip or torch installed
            self._graph = OnnxRuntimeBackend(path, providers=[(CUDA, {"device_id": gpu})])
            self.name = f"onnxruntime {path.name} on cuda:{gpu}"
        if not offered or CUDA not in self._graph.providers:
            raise BackendError(
                f"ONNX Runtime {onnxruntime.__version__} cannot use the GPU by its {CUDA}; "
                "install onnxruntime-gpu in place of onnxruntime, with the CUDA libraries that it "
                "names, or use --device cpu"
            )

    def run(self, windows: Windows) -> Outputs:
        """Run the graph once; see ``Backend.run``."""
        return self._graph.run(windows)


def load_onnx(
    bundle: Bundle,
    threads: int | None = None,
    precision: Precision | None = None,
    workers: int = 1,
    device: str | None = None,
) -> LoadedBackend:
    """Load a graph into ONNX Runtime and run the self-test.

    The arguments are those of ``load_backend``.

    Raises:
        BundleError: The bundle has no such graph, or it fails the self-test.
        BackendError: ONNX Runtime cannot use the device.
    """
    gpu = None if precision == "int8" and device is None else find_gpu(device)
    named = device not in ("cpu", None)
    if gpu is not None and (named or CUDA in onnxruntime.get_available_providers()):
        try:
            graph = choose_gpu_graph(bundle, precision)
            backend = OnnxGpuBackend(bundle.path(graph.file), gpu)
            check_self_test(backend, bundle, graph.file)
            return LoadedBackend(backend, graph.precision)
        except (BackendError, BundleError) as error:
            if named:
                raise
            logger.warning("%s; the CPU is used", error)
    graph = choose_graph(bundle, precision)
    on_cpu = OnnxRuntimeBackend(bundle.path(graph.file), threads, workers, sums_fit=graph.sums_fit)
    check_self_test(on_cpu, bundle, graph.file)
    return LoadedBackend(on_cpu, graph.precision)
