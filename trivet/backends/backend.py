"""Interface of the backends, which run one graph: ``Windows`` in, ``Outputs`` out, no text."""

from __future__ import annotations

import os
from collections.abc import Set
from typing import Protocol, runtime_checkable

from trivet.data.windows import Windows
from trivet.errors import BundleError
from trivet.model.aggregate import Outputs, heads_of, output_names, unread_inputs
from trivet.model.architecture import DEFAULT_HEADS

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
    step: int  # windows are padded to a multiple of this many positions
    most_windows: int  # maximum windows of one call


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
    for end, given, wanted, optional in ends:
        missing, unknown = sorted(wanted - given - optional), sorted(given - wanted)
        if missing or unknown:
            raise BundleError(
                f"{file}: its {end} do not fit: missing {', '.join(missing) or 'none'}; "
                f"unknown {', '.join(unknown) or 'none'}"
            )
