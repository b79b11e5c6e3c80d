"""Load the TensorRT engine that this machine built from a bundle."""

from __future__ import annotations

from trivet.backends.device import find_gpu
from trivet.backends.graph_choice import LoadedBackend, Precision, check_self_test
from trivet.backends.profiles import make_profiles
from trivet.backends.tensorrt import TensorRTBackend
from trivet.backends.tensorrt_build import find_target
from trivet.backends.tensorrt_cache import EngineCache
from trivet.bundle.bundle import Bundle
from trivet.bundle.schema import GraphInfo
from trivet.bundle.tensorrt_info import EngineInfo, engine_key
from trivet.errors import BackendError, BundleError

# The order in which engines and graphs are looked for.
PRECISIONS: tuple[Precision, ...] = ("fp16", "bf16", "fp32")


def load_engine(
    bundle: Bundle, precision: Precision | None = None, device: str | None = None
) -> LoadedBackend:
    """Load the engine of a bundle's graph from the cache and run the self-test.

    Args:
        bundle: The bundle.
        precision: Precision of the engine; ``None`` takes the first of ``PRECISIONS``.
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
        found = cache.get(engine_key(sha256, graph.precision, target, profiles))
        if found is not None:
            return found
    built = {f"{one.target.gpu} and TensorRT {one.target.tensorrt}" for one in bundle.info.engines}
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
        for kind in ((precision,) if precision else PRECISIONS)
        for graph in sorted(bundle.info.graphs, key=lambda each: -each.opset)
        if graph.precision == kind and graph.portable
    ]
    if not fitting:
        kind = precision or "fp16"
        raise BundleError(
            f"{bundle.folder}: an engine needs a graph in {kind}; run `trivet export onnx "
            f"{bundle.as_argument} --precision {kind}` where the weights are"
        )
    return fitting
