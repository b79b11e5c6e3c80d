"""Build a TensorRT engine from an ONNX graph for this machine's GPU, and keep it.

Networks are strongly typed: an engine computes in the types of the graph. Kernels are timed on the
GPU, which takes minutes; the timings are cached. An engine is code, so the folder of the cache must
belong to the user and have mode 0700.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from trivet.backends import cuda
from trivet.backends.device import check_driver
from trivet.backends.profiles import Sizes, shapes
from trivet.backends.tensorrt import load_tensorrt, make_logger
from trivet.bundle.backend_info import EngineInfo, EngineTarget, ShapeRange
from trivet.errors import BackendError, fault_words

logger = logging.getLogger(__name__)


_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def default_folder() -> Path:
    """Return ``$TRIVET_CACHE``, or ``trivet/engines`` in the user's cache folder."""
    if chosen := os.environ.get("TRIVET_CACHE"):
        return Path(chosen)
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "trivet" / "engines"


class EngineCache:
    """Engines by ``backend_info.engine_key``, each with its description and SHA-256."""

    def __init__(self, folder: Path | None = None) -> None:
        """Open a cache, creating its folder if needed.

        Raises:
            BackendError: The folder cannot be created, is a link, or is accessible to other users.
        """
        self.folder = folder = folder or default_folder()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise BackendError(f"{folder}: not a folder that can be created: {error}") from error
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise BackendError(f"{folder}: not a folder; engines are only kept in a folder")
        if hasattr(os, "getuid") and status.st_uid != os.getuid():
            raise BackendError(
                f"{folder}: belongs to user {status.st_uid}; an engine is code, and only your "
                "own is loaded. Set TRIVET_CACHE to a folder of yours"
            )
        if status.st_mode & _OTHERS:
            raise BackendError(
                f"{folder}: open to other users (mode {stat.S_IMODE(status.st_mode):04o}); an "
                f"engine is code. Make it yours alone: chmod 700 {folder}"
            )

    def put(self, plan: bytes, info: EngineInfo) -> Path:
        """Store an engine; its description is written last, so that half of it is never found."""
        path = self.folder / f"{info.key}.engine"
        path.with_suffix(".json").unlink(missing_ok=True)  # of the engine that is replaced
        self.write(path, plan)
        self.write(path.with_suffix(".json"), info.model_dump_json(indent=1).encode())
        return path

    def get(self, key: str) -> tuple[bytes, EngineInfo] | None:
        """Return the engine of a key and its description; ``None`` if there is none.

        Raises:
            BackendError: The engine is damaged or does not match its description.
        """
        path = self.folder / f"{key}.engine"
        described = path.with_suffix(".json")
        if not described.exists():
            return None
        try:
            info = EngineInfo.model_validate_json(described.read_bytes())
            plan = path.read_bytes()
        except (OSError, ValidationError) as error:
            reason = fault_words(error, 1) if isinstance(error, ValidationError) else error.strerror
            raise BackendError(f"{described}: damaged, remove it: {reason}") from error
        if info.key != key or hashlib.sha256(plan).hexdigest() != info.engine_sha256:
            raise BackendError(f"{path}: not the engine that {described.name} describes; remove it")
        return plan, info

    def timing(self) -> bytes:
        """Return the kernel timings of earlier builds; empty before the first."""
        path = self.folder / "timing.cache"
        return path.read_bytes() if path.exists() else b""

    def put_timing(self, measured: bytes) -> None:
        """Store the kernel timings of a build, which make the next one faster."""
        self.write(self.folder / "timing.cache", measured)

    def write(self, path: Path, content: bytes) -> None:
        """Write a file atomically with mode 0600."""
        handle, scratch = tempfile.mkstemp(dir=self.folder)  # made with mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            Path(scratch).replace(path)
        except BaseException:
            Path(scratch).unlink(missing_ok=True)
            raise


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
    # With the path, weights in a file next to the graph are found.
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
    least, usual, most = (shapes(Sizes(**size)) for size in (sizes.least, sizes.usual, sizes.most))
    for name in inputs:
        profile.set_shape(name, least[name], usual[name], most[name])
    return profile
