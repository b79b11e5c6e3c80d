"""Build a TensorRT engine from an ONNX graph for this machine's GPU.

Networks are strongly typed: an engine computes in the types of the graph. Kernels are timed on the
GPU, which takes minutes; the timings are cached.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from trivet.backends import cuda
from trivet.backends.device import check_driver
from trivet.backends.example_windows import Sizes
from trivet.backends.profiles import shapes
from trivet.backends.tensorrt import load_tensorrt, make_logger
from trivet.backends.tensorrt_cache import EngineCache
from trivet.bundle.tensorrt_info import EngineTarget, ShapeRange
from trivet.errors import BackendError

logger = logging.getLogger(__name__)

# First version with the Attention operator and strong typing throughout.
OLDEST = (10, 14)
_WORKSPACE = 4 * 2**30


Progress = Callable[[str, int, int], None]
"""Takes the name of a step, the work done and all of its work."""


def no_progress(step: str, done: int, total: int) -> None:
    """Report nothing."""


class Built(NamedTuple):
    """A serialized engine and the duration of its build."""

    plan: bytes
    seconds: float


def find_target() -> EngineTarget:
    """Return the TensorRT version and GPU of this machine.

    Raises:
        BackendError: TensorRT or a GPU is missing, or TensorRT is too old.
    """
    tensorrt = load_tensorrt()
    version = str(tensorrt.__version__)
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise BackendError(
            f"TensorRT {version} is too old: {OLDEST[0]}.{OLDEST[1]} or later reads these graphs"
        )
    check_driver("TensorRT", cuda.BUILT_FOR)
    gpu, capability = cuda.describe_device(cuda.load_runtime())
    return EngineTarget(tensorrt=version, gpu=gpu, compute_capability=capability)


def build_engine(
    graph: Path,
    profiles: tuple[ShapeRange, ...],
    cache: EngineCache,
    progress: Progress = no_progress,
) -> Built:
    """Build an engine for this machine's GPU.

    Raises:
        BackendError: TensorRT cannot read or build the graph.
    """
    tensorrt = load_tensorrt()
    began = time.monotonic()
    log = make_logger(tensorrt)
    builder = tensorrt.Builder(log)
    typed = 1 << int(tensorrt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    network = builder.create_network(typed)
    parser = tensorrt.OnnxParser(network, log)
    # With the path, weights in a file beside the graph are found.
    if not parser.parse(_read_graph(graph), str(graph)):
        errors = [parser.get_error(number) for number in range(parser.num_errors)]
        faults = [
            f"{error.desc()} (node {error.node_name() or '?'}, {error.node_operator() or '?'})"
            for error in errors
        ]
        raise BackendError(f"{graph.name}: TensorRT cannot read it: {'; '.join(faults)}")
    config = builder.create_builder_config()
    config.set_memory_pool_limit(tensorrt.MemoryPoolType.WORKSPACE, _WORKSPACE)
    monitor = _make_monitor(tensorrt, progress)  # must live as long as the build
    config.progress_monitor = monitor
    inputs = {network.get_input(number).name for number in range(network.num_inputs)}
    for number, profile in enumerate(profiles):
        # Calls select profiles by number, so none may be skipped.
        if config.add_optimization_profile(_make_profile(builder, profile, inputs)) != number:
            raise BackendError(
                f"{graph.name}: TensorRT does not take profile {number} ({profile.most}); its log "
                "says why (-v)"
            )
    timing = config.create_timing_cache(cache.timing())
    # A timing cache of another GPU or TensorRT is refused; start a new one.
    if timing is None or not config.set_timing_cache(timing, ignore_mismatch=False):
        config.set_timing_cache(config.create_timing_cache(b""), ignore_mismatch=False)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise BackendError(f"{graph.name}: TensorRT cannot build it; its log says why (-v)")
    cache.put_timing(bytes(config.get_timing_cache().serialize()))
    seconds = time.monotonic() - began
    logger.info("%s: built for %d profiles in %.0f s", graph.name, len(profiles), seconds)
    return Built(bytes(plan), seconds)


def _read_graph(path: Path) -> bytes:
    """Return a graph whose ``Attention`` may be split where no fused kernel fits.

    The attribute is TensorRT's own, and other backends refuse it, so it is not in the file.
    """
    import onnx

    graph = onnx.load(path, load_external_data=False)
    for node in graph.graph.node:
        if node.op_type == "Attention":
            node.attribute.append(onnx.helper.make_attribute("TRT_decomposable", 1))
    content: bytes = graph.SerializeToString()
    return content


def _make_monitor(tensorrt: Any, progress: Progress) -> Any:
    """Return a TensorRT progress monitor that reports the outermost phase."""

    class Monitor(tensorrt.IProgressMonitor):  # type: ignore[misc]
        def __init__(self) -> None:
            tensorrt.IProgressMonitor.__init__(self)
            self.phase, self.steps = "", 0

        def phase_start(self, phase: str, parent: str | None, steps: int) -> None:
            if parent is None:
                self.phase, self.steps = phase, steps

        def step_complete(self, phase: str, step: int) -> bool:
            if phase == self.phase:
                progress("build", step + 1, self.steps)
            return True  # go on

        def phase_finish(self, phase: str) -> None:
            if phase == self.phase:
                progress("build", self.steps, self.steps)

    return Monitor()


def _make_profile(builder: Any, sizes: ShapeRange, inputs: set[str]) -> Any:
    """Return one optimization profile for TensorRT."""
    profile = builder.create_optimization_profile()
    least, usual, most = (shapes(Sizes(**each)) for each in (sizes.least, sizes.usual, sizes.most))
    for name in inputs:
        profile.set_shape(name, least[name], usual[name], most[name])
    return profile
