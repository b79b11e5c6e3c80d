"""Load the TensorRT engine that this machine built from a bundle."""

from __future__ import annotations

from trivet.backends.graph_choice import check_self_test
from trivet.backends.profiles import make_profiles
from trivet.backends.tensorrt import TensorRTBackend
from trivet.backends.tensorrt_build import find_target
from trivet.backends.tensorrt_cache import EngineCache
from trivet.bundle.bundle import GRAPH_NAME, Bundle
from trivet.bundle.schema import GraphInfo
from trivet.bundle.tensorrt_info import EngineInfo, EnginePrecision, engine_key
from trivet.records import BackendError, BundleError


def load_engine(bundle: Bundle, precision: EnginePrecision = "bf16") -> TensorRTBackend:
    """Load the engine of a bundle's graph from the cache and run the self-test.

    Raises:
        BundleError: The bundle has no such graph, or the self-test fails.
        BackendError: No engine of this graph was built for this GPU and TensorRT version.
    """
    plan, info = find_engine(bundle, precision)
    backend = TensorRTBackend(plan, info)
    check_self_test(backend, bundle, info.graph)
    return backend


def find_engine(bundle: Bundle, precision: EnginePrecision) -> tuple[bytes, EngineInfo]:
    """Return the cached engine of a bundle's graph and its description.

    Raises:
        BundleError: The bundle has no such graph.
        BackendError: No engine of this graph was built for this GPU and TensorRT version.
    """
    graph = find_graph(bundle, precision)
    target, cache = find_target(), EngineCache()
    profiles = make_profiles(bundle.info.window.size)
    sha256 = bundle.manifest.files[graph.file].sha256
    found = cache.get(engine_key(sha256, precision, target, profiles))
    if found is None:
        raise BackendError(
            f"{cache.folder}: no engine of {bundle.folder / graph.file} for {target.gpu} and "
            f"TensorRT {target.tensorrt}; run `trivet export tensorrt {bundle.folder} --data DATA` "
            "on this machine"
        )
    return found


def find_graph(bundle: Bundle, precision: EnginePrecision) -> GraphInfo:
    """Return the graph to build an engine from, preferably the one with ``Attention``.

    Raises:
        BundleError: There is none, or no fp32 graph to compare with.
    """
    fitting = [
        graph for graph in bundle.info.graphs if graph.precision == precision and graph.portable
    ]
    if not fitting or not bundle.has(GRAPH_NAME):
        raise BundleError(
            f"{bundle.folder}: an engine needs {GRAPH_NAME} and a graph in {precision}; run "
            f"`trivet export onnx {bundle.folder} --precision {precision}` where the weights are"
        )
    return max(fitting, key=lambda graph: graph.opset)
