"""Loading of a bundle's graph into ONNX Runtime, on a GPU if ONNX Runtime can use one."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import onnxruntime

from trivet.backends.device import find_gpu
from trivet.backends.example_windows import Sizes
from trivet.backends.graph_choice import (
    LoadedBackend,
    Precision,
    check_self_test,
    choose_gpu_graph,
    choose_graph,
)
from trivet.backends.onnx_runtime import OnnxRuntimeBackend
from trivet.backends.profiles import MOST_WINDOWS, POSITIONS, STEP, shapes
from trivet.backends.tensorrt_cache import EngineCache
from trivet.bundle.bundle import Bundle
from trivet.data.windows import Windows
from trivet.errors import BackendError, BundleError
from trivet.model.aggregate import Outputs

logger = logging.getLogger(__name__)

CUDA, TENSORRT = "CUDAExecutionProvider", "TensorrtExecutionProvider"
# Most sentences of a call; the calls of an evaluation have one.
_SENTENCES = 64


class OnnxGpuBackend:
    """One ONNX graph on a GPU; ``run`` may be called from several threads."""

    positions, step, most_windows = POSITIONS, STEP, MOST_WINDOWS

    def __init__(
        self, path: Path, window: int, gpu: int, *, tensorrt: bool = False, fp16: bool = False
    ) -> None:
        """Load the graph.

        Args:
            path: ``.onnx`` file of a bundle, already checked against its manifest.
            window: Most positions of a window.
            gpu: Number of the GPU.
            tensorrt: Whether to use the TensorRT provider, which builds engines at the first call
                and caches them.
            fp16: Whether TensorRT may compute in fp16.

        Raises:
            BundleError: The file is no graph, or its inputs or outputs do not fit.
            BackendError: ONNX Runtime cannot use the GPU.
        """
        wanted = TENSORRT if tensorrt else CUDA
        providers: list[tuple[str, dict[str, Any]]] = [(CUDA, {"device_id": gpu})]
        if tensorrt:
            providers.insert(0, (TENSORRT, tensorrt_options(window, gpu, fp16)))
        if wanted in onnxruntime.get_available_providers():
            if hasattr(onnxruntime, "preload_dlls"):  # from 1.21 on
                onnxruntime.preload_dlls()  # finds the CUDA libraries that pip or torch installed
            self._graph = OnnxRuntimeBackend(path, providers=providers)
            self.name = f"onnxruntime {path.name} on cuda:{gpu}" + " by TensorRT" * tensorrt
        if wanted not in onnxruntime.get_available_providers() or wanted not in (
            self._graph.providers
        ):
            raise BackendError(
                f"ONNX Runtime {onnxruntime.__version__} cannot use the GPU by its {wanted}; "
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
    tensorrt: bool = False,
) -> LoadedBackend:
    """Load a graph into ONNX Runtime and run the self-test.

    The arguments are those of ``load_backend``; ``tensorrt`` uses the TensorRT provider.

    Raises:
        BundleError: The bundle has no such graph, or it fails the self-test.
        BackendError: ONNX Runtime cannot use the device.
    """
    gpu = None if precision == "int8" and device is None else find_gpu(device)
    named = tensorrt or device not in ("cpu", None)
    if tensorrt and gpu is None:
        raise BackendError("ONNX Runtime's TensorRT provider needs an NVIDIA GPU; found none")
    if gpu is not None and (named or CUDA in onnxruntime.get_available_providers()):
        try:
            graph = choose_gpu_graph(bundle, precision)
            half, size = graph.precision == "fp16", bundle.info.window.size
            path = bundle.path(graph.file)
            backend = OnnxGpuBackend(path, size, gpu, tensorrt=tensorrt, fp16=half)
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


def tensorrt_options(window: int, gpu: int, fp16: bool) -> dict[str, Any]:
    """Return options of the TensorRT provider: its cache, and one profile for all calls.

    Without a profile, every new shape would build the engine again.
    """
    folder = EngineCache().folder / "onnxruntime"
    folder.mkdir(mode=0o700, exist_ok=True)
    n = MOST_WINDOWS
    least = Sizes(N=1, L=1, B=1, R=1, K=1, C=1, S=1)
    most = Sizes(N=n, L=window, B=n, R=n * window, K=n, C=n * window, S=_SENTENCES)
    usual = most._replace(B=1, R=STEP, C=n * window // 2, S=1)
    return {
        "device_id": gpu,
        "trt_engine_cache_enable": True,
        "trt_engine_cache_path": str(folder),
        "trt_timing_cache_enable": True,
        "trt_timing_cache_path": str(folder),
        "trt_fp16_enable": fp16,
        "trt_layer_norm_fp32_fallback": fp16,
        "trt_profile_min_shapes": _shape_text(least),
        "trt_profile_opt_shapes": _shape_text(usual),
        "trt_profile_max_shapes": _shape_text(most),
    }


def _shape_text(sizes: Sizes) -> str:
    """Return the shapes of all inputs as text: ``input_ids:1x64,...``."""
    inputs = {name: shape for name, shape in shapes(sizes).items() if name in Windows._fields}
    return ",".join(f"{name}:{'x'.join(map(str, shape))}" for name, shape in inputs.items())
