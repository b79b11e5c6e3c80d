"""Loading of a bundle's tokenizer and backend, and the self-test of what was loaded."""

from __future__ import annotations

import difflib
import importlib.util
import logging
import numbers
import os
from pathlib import Path
from typing import get_args

import onnxruntime

from trivet.backends.backend import LoadedBackend, check_self_test, choose_graph, cores
from trivet.backends.device import find_gpu, is_device
from trivet.backends.onnx_runtime import OnnxRuntimeBackend
from trivet.backends.profiles import MAX_WINDOWS, POSITIONS, STEP, make_profiles
from trivet.backends.tensorrt import TensorRTBackend
from trivet.backends.tensorrt_build import EngineCache, find_target
from trivet.bundle.backend_info import EngineInfo, engine_key
from trivet.bundle.bundle import INT8_NAME, TOKENIZER_NAME, WEIGHTS_NAME, Bundle
from trivet.bundle.info import GraphInfo
from trivet.data.tokenization import SegmentTokenizer
from trivet.data.windows import Windows
from trivet.errors import BackendError, BundleError, install_line
from trivet.model.aggregate import Outputs
from trivet.settings import BackendName, Precision

logger = logging.getLogger(__name__)


CUDA = "CUDAExecutionProvider"


class OnnxGpuBackend:
    """One ONNX graph on a GPU; ``run`` may be called from several threads."""

    positions, step, max_windows = POSITIONS, STEP, MAX_WINDOWS

    def __init__(self, path: Path, gpu: int) -> None:
        """Load the ``.onnx`` file of a bundle, already checked against its manifest.

        Raises:
            BundleError: The file is not a graph, or its inputs or outputs do not fit.
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
            graph = choose_graph(bundle, precision, on_gpu=True)
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


def check_options(
    bundle: object, precision: object, backend: object, device: object, **counts: int | None
) -> None:
    """Refuse an argument of ``Evaluator`` that names nothing; ``None`` is always a choice.

    Args:
        bundle: Folder or name.
        precision: Precision of the graph.
        backend: Name of a backend, or a loaded one.
        device: Device.
        counts: Whole numbers from 1 on.

    Raises:
        BackendError: There is no such backend, precision or device; the message has their names.
        TypeError: An argument is of another kind, such as a number that is not whole.
        ValueError: A number is below 1.
    """
    if bundle is not None and not isinstance(bundle, str | os.PathLike):
        raise TypeError(f"bundle must be a folder or a name, not {bundle!r}")
    if isinstance(backend, str):
        _check_name("backend", backend, get_args(BackendName))
    elif backend is not None and not hasattr(backend, "run"):
        raise TypeError(
            f"backend must be a name ({', '.join(get_args(BackendName))}) or a loaded backend, "
            f"not {type(backend).__name__}"
        )
    if precision is not None:
        _check_name("precision", precision, get_args(Precision))
    if device is not None and not is_device(device):
        raise BackendError(f"no device {device}; use cpu, cuda or cuda:N")
    for name, count in counts.items():
        if count is None:
            continue
        if isinstance(count, bool) or not isinstance(count, numbers.Integral):
            raise TypeError(f"{name} must be a whole number, not {count!r}")
        if count < 1:
            raise ValueError(f"{name} ({count}) must be at least 1")


def _check_name(option: str, name: object, names: tuple[str, ...]) -> None:
    if name in names:
        return
    low = str(name).lower()
    near = difflib.get_close_matches(low, names, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    if low == "gpu" or is_device(low):
        hint = f"; a device is another option: device={'cuda' if low == 'gpu' else low!r}"
    raise BackendError(f"no {option} {name!r}; use {', '.join(names)}{hint}")


def load_tokenizer(bundle: Bundle) -> SegmentTokenizer:
    """Load a bundle's tokenizer.

    Raises:
        BundleError: It is not a tokenizer, or its special tokens are not those of the model.
    """
    tokenizer = SegmentTokenizer.from_file(bundle.path(TOKENIZER_NAME))
    stated, actual = bundle.info.special_tokens, tokenizer.special
    if (stated.cls, stated.sep, stated.pad) != (actual.cls, actual.sep, actual.pad):
        raise BundleError(
            f"{TOKENIZER_NAME}: its special tokens are cls {actual.cls}, sep {actual.sep}, pad "
            f"{actual.pad}, but bundle.json says cls {stated.cls}, sep {stated.sep}, pad "
            f"{stated.pad}; the tokenizer belongs to another model"
        )
    return tokenizer


def load_backend(
    bundle: Bundle,
    threads: int | None = None,
    precision: Precision | None = None,
    backend: BackendName | None = None,
    workers: int | None = None,
    device: str | None = None,
) -> LoadedBackend:
    """Load a graph, an engine or the weights of a bundle, and run the stored self-test.

    Args:
        bundle: A bundle whose files were checked.
        threads: Threads of the backend; ``None`` means one for each core.
        precision: Precision to compute in; ``None`` means fp16 on a GPU, on a CPU int8 if there is
            such a graph (fp32 for torch), and for OpenVINO the choice of ``trivet export``.
        backend: ``onnx`` (ONNX Runtime), ``openvino`` (faster on CPUs with VNNI), ``tensorrt``
            (built by ``trivet export tensorrt``), ``torch``, or ``None`` for the choice of
            ``choose_backend``.
        workers: Calls that a CPU runs at once, each on its share of the threads; ``None`` runs
            each on one thread. Use 1 to make one call at a time.
        device: ``cpu``, ``cuda`` or ``cuda:N``; ``None`` takes a GPU if the backend can use one.

    Raises:
        BundleError: A file is missing or refused, or fails the self-test.
        BackendError: A library or the device is missing, or no engine was built on this machine.
    """
    backend = backend or choose_backend(bundle, precision, device)
    if backend == "torch":
        try:
            from trivet.backends.torch import load_torch
        except ImportError as error:
            needs = f"the torch backend needs {error.name}; {install_line('train')}"
            raise BackendError(needs) from error
        return load_torch(bundle, threads, precision, device)
    if backend == "tensorrt":
        return load_engine(bundle, precision, device)
    workers = workers or threads or cores()
    if backend == "openvino":
        from trivet.backends.openvino import load_for_openvino

        if device not in (None, "cpu"):
            raise BackendError(f"OpenVINO runs on the CPU, not on {device}")
        return load_for_openvino(bundle, threads, precision, workers)
    return load_onnx(bundle, threads, precision, workers, device)


def choose_backend(
    bundle: Bundle, precision: Precision | None = None, device: str | None = None
) -> BackendName:
    """Return the default backend: ``onnx`` on a CPU; on a GPU the fastest one that is there.

    The arguments are those of ``load_backend``.

    Raises:
        BackendError: There is no such device.
    """
    gpu = find_gpu(device)
    if gpu is None or precision == "int8":
        return "onnx"
    if gpu == 0 and _has_engine(bundle, precision):
        return "tensorrt"
    if _torch_runs_it(bundle):
        logger.warning(
            "%s: no TensorRT engine was built for this GPU, so torch runs it; faster: `trivet "
            "export tensorrt %s --data DATA`",
            bundle.folder,
            bundle.as_argument,
        )
        return "torch"
    return "onnx"


def _has_engine(bundle: Bundle, precision: Precision | None) -> bool:
    """Return whether an engine of the bundle was built on this machine."""
    if importlib.util.find_spec("tensorrt") is None:
        return False
    try:
        find_engine(bundle, precision)
    except (BackendError, BundleError) as error:
        logger.info("%s", error)
        return False
    return True


def _torch_runs_it(bundle: Bundle) -> bool:
    """Return whether torch can load the bundle on a GPU."""
    weights = bundle.has(WEIGHTS_NAME) or (
        bundle.has(INT8_NAME) and bundle.info.encoder.model_type == "bert"
    )
    if not weights or importlib.util.find_spec("torch") is None:
        return False
    try:
        from trivet.backends.torch import check_gpu

        check_gpu()
    except (BackendError, ImportError) as error:
        logger.warning("%s", error)
        return False
    return True


# The order in which engines and graphs are looked for.
_PRECISIONS: tuple[Precision, ...] = ("fp16", "bf16", "fp32")


def load_engine(
    bundle: Bundle, precision: Precision | None = None, device: str | None = None
) -> LoadedBackend:
    """Load the engine of a bundle's graph from the cache and run the self-test.

    Args:
        bundle: The bundle.
        precision: Precision of the engine; ``None`` takes the first of fp16, bf16 and fp32.
        device: Device as in ``find_gpu``; engines run on the first GPU only.

    Raises:
        BundleError: The bundle has no such graph, or the self-test fails.
        BackendError: No engine of this graph was built for this GPU and TensorRT version.
    """
    if device not in (None, "cuda", "cuda:0"):
        find_gpu(device)  # a device that is not there is refused by name
        raise BackendError(
            f"TensorRT engines run on the first GPU, not on {device}; choose one by "
            "CUDA_VISIBLE_DEVICES"
        )
    plan, info = find_engine(bundle, precision)
    backend = TensorRTBackend(plan, info)
    check_self_test(backend, bundle, info.graph)
    return LoadedBackend(backend, info.precision)


def find_engine(bundle: Bundle, precision: Precision | None = None) -> tuple[bytes, EngineInfo]:
    """Return the cached engine of a bundle's graph and its description.

    Raises:
        BundleError: The bundle has no such graph.
        BackendError: No engine of this graph was built for this GPU and TensorRT version.
    """
    graphs = find_graphs(bundle, precision)
    target, cache = find_target(), EngineCache()
    profiles = make_profiles(bundle.info.window.size)
    for graph in graphs:
        sha256 = bundle.manifest.files[graph.file].sha256
        assert graph.precision != "int8"
        built_engine = cache.get(engine_key(sha256, graph.precision, target, profiles))
        if built_engine is not None:
            return built_engine
    built = {
        f"{engine.target.gpu} and TensorRT {engine.target.tensorrt}"
        for engine in bundle.info.engines
    }
    raise BackendError(
        f"{cache.folder}: no engine of {bundle.folder / graphs[0].file} for {target.gpu} and "
        f"TensorRT {target.tensorrt} (built so far: {', '.join(sorted(built)) or 'none'}); run "
        f"`trivet export tensorrt {bundle.as_argument} --data DATA` on this machine"
    )


def find_graphs(bundle: Bundle, precision: Precision | None = None) -> list[GraphInfo]:
    """Return the graphs that engines are built from, those with ``Attention`` first.

    Raises:
        BundleError: There is none.
    """
    if precision == "int8":
        raise BundleError(f"{bundle.folder}: no TensorRT engine in int8; use fp16, bf16 or fp32")
    fitting = [
        graph
        for kind in ((precision,) if precision else _PRECISIONS)
        for graph in sorted(bundle.info.graphs, key=lambda graph_info: -graph_info.opset)
        if graph.precision == kind and graph.portable
    ]
    if not fitting:
        kind = precision or "fp16"
        raise BundleError(
            f"{bundle.folder}: an engine needs a graph in {kind}; run `trivet export onnx "
            f"{bundle.as_argument} --precision {kind}` where the weights are"
        )
    return fitting
