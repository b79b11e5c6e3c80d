"""Interface of the backends, which run one graph: ``Windows`` in, ``Outputs`` out, no text.

Also the choice of a bundle's graph, and the self-test of a loaded backend.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Set
from typing import NamedTuple, Protocol, runtime_checkable

from trivet.bundle.bundle import SELF_TEST_NAME, Bundle
from trivet.bundle.info import GraphInfo
from trivet.bundle.self_test import read_self_test
from trivet.data.windows import Windows
from trivet.errors import BackendError, BundleError
from trivet.heads import DEFAULT_HEADS
from trivet.model.aggregate import Outputs, heads_of, output_names, unread_inputs
from trivet.settings import Precision

logger = logging.getLogger(__name__)


# A core is fastest with one window of 512 at a time.
POSITIONS = 512


class Backend(Protocol):
    """A loaded model."""

    @property
    def name(self) -> str:
        """Library and graph: ``onnxruntime model.int8.onnx``."""
        ...

    def run(self, windows: Windows) -> Outputs:
        """Run the model once.

        Args:
            windows: Numpy arrays, shapes as in ``Windows``; ids int64, weights float32.

        Returns:
            Numpy arrays of float32, shapes as in ``Outputs``.

        Raises:
            BackendError: The backend failed.
        """
        ...


@runtime_checkable
class ShapedBackend(Backend, Protocol):
    """A backend that is made for certain shapes."""

    positions: int  # maximum positions of one call
    step: int  # windows count as a multiple of this many positions
    max_windows: int  # maximum windows of one call


@runtime_checkable
class ConcurrentBackend(Backend, Protocol):
    """A backend that is fastest with several calls at once."""

    workers: int


@runtime_checkable
class AllThreadsBackend(ConcurrentBackend, Protocol):
    """A backend of several workers that can run one call on the threads of all of them."""

    def run_all_threads(self, windows: Windows) -> Outputs:
        """Run the model once, on all threads: the same answer, sooner; see ``run``."""
        ...


def call_error(name: str, windows: Windows, error: object) -> BackendError:
    """Return the error of a failed call: the backend, the shape of the windows and the cause."""
    shape = "x".join(str(size) for size in windows.input_ids.shape)
    return BackendError(f"{name} failed on {shape} window positions: {error}")


def workers_of(backend: Backend) -> int:
    """Return how many calls a backend should run at once."""
    return backend.workers if isinstance(backend, ConcurrentBackend) else 1


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_per_worker(threads: int | None, workers: int) -> int:
    """Return how many threads run one call; 0 lets the backend choose if there is one worker.

    Raises:
        ValueError: ``threads`` is below 1, or below ``workers``.
    """
    if threads is not None and threads < 1:
        raise ValueError(f"threads ({threads}) must be at least 1")
    if workers == 1:
        return threads or 0
    shared = threads or cores()
    if not 1 <= workers <= shared:
        raise ValueError(f"workers ({workers}) must be from 1 to the {shared} threads")
    return shared // workers


def check_ends(file: str, inputs: Set[str], outputs: Set[str]) -> None:
    """Refuse a model whose inputs and outputs are not ``Windows`` and ``Outputs``.

    It may have any of the heads, and may lack an input that none of them reads.

    Raises:
        BundleError: An input or output is missing or unknown.
    """
    heads = heads_of(outputs) or DEFAULT_HEADS
    # The optimizer of a graph may drop an input that is not read; some encoders have no segments.
    optional = unread_inputs(heads) | {"segment_ids"}
    ends = (
        ("inputs", inputs, frozenset(Windows._fields), optional),
        ("outputs", outputs, frozenset(output_names(heads)), frozenset[str]()),
    )
    for end, present, wanted, optional in ends:
        missing, unknown = sorted(wanted - present - optional), sorted(present - wanted)
        if missing or unknown:
            raise BundleError(
                f"{file}: its {end} do not fit: missing {', '.join(missing) or 'none'}; "
                f"unknown {', '.join(unknown) or 'none'}"
            )


class LoadedBackend(NamedTuple):
    """A backend that passed the self-test."""

    backend: Backend
    precision: Precision


def check_self_test(
    backend: Backend,
    bundle: Bundle,
    file: str,
    precision: Precision | None = None,
) -> None:
    """Run the stored self-test of a bundle on a backend.

    Args:
        backend: The backend.
        bundle: The bundle.
        file: File whose recorded answers are compared.
        precision: Precision of the backend; ``None`` means that of the file.

    Raises:
        BundleError: It does not run, or the answers differ; the message names the graph's ``file``.
    """
    test = read_self_test(bundle.path(SELF_TEST_NAME))
    windows = Windows(**test.arrays())
    try:
        answers = [backend.run(windows)]
        if isinstance(backend, AllThreadsBackend) and backend.workers > 1:
            answers.append(backend.run_all_threads(windows))
    except BackendError as error:
        raise BundleError(f"{file}: the self-test does not run: {error}") from error
    worst = max(test.check(file, answer.present(), precision) for answer in answers)
    logger.info("%s loaded from %s, self-test within %.2g", backend.name, bundle.folder, worst)


def choose_graph(bundle: Bundle, precision: Precision | None, on_gpu: bool = False) -> GraphInfo:
    """Return the graph of a precision, or the fastest one, for ONNX Runtime.

    Raises:
        BundleError: The bundle has no such graph, or ONNX Runtime cannot run the precision there.
    """
    if on_gpu and precision == "int8":
        raise BundleError(f"{bundle.folder}: int8 is for CPUs; use --device cpu, or fp16 or fp32")
    if not on_gpu and precision not in ("int8", "fp32", None):
        raise BundleError(
            f"{bundle.folder}: {precision} is for GPUs; use --backend torch or tensorrt, or int8 "
            "or fp32 on the CPU"
        )
    fastest: Precision = "fp16" if on_gpu else "int8"
    wanted = (precision,) if precision else (fastest, "fp32")
    by_precision = {graph.precision: graph for graph in reversed(bundle.info.graphs)}
    for kind in wanted:
        if kind in by_precision:
            return by_precision[kind]
    has = ", ".join(sorted(by_precision)) or "none"
    # With --out, and for GPUs, the graph is written only if it is named.
    named = bundle.read_only or wanted[0] in ("bf16", "fp16")
    option = f" --precision {wanted[0]}" * named
    then = " and give --bundle DIR" * bundle.read_only
    raise BundleError(
        f"{bundle.folder}: no {' or '.join(wanted)} graph (it has {has}); run "
        f"`trivet export onnx {bundle.as_argument}{option}`{then}"
    )
