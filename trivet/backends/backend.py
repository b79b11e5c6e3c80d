"""What the evaluator asks of an engine, and the check that an engine's answer is usable.

An engine runs one graph: ``Windows`` in, ``Outputs`` out. It knows nothing of text.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from trivet.data.segment_tokenizer import FloatArray
from trivet.data.windows import Windows
from trivet.model.aggregate import Outputs
from trivet.records import BackendError, BundleError

# A core is fastest with one window of 512 at a time.
POSITIONS = 512
# Rounding may leave [0, 1] by this much; anything further is a broken engine.
_ROUNDING = 1e-3
# A graph's optimizer may drop what an encoder without token types never reads.
_OPTIONAL = frozenset({"segment_ids"})


class Backend(Protocol):
    """An engine that holds one loaded model."""

    @property
    def name(self) -> str:
        """What runs and on what: ``onnxruntime int8``."""
        ...

    def run(self, windows: Windows) -> Outputs:
        """Run the model once.

        Args:
            windows: Numpy arrays, shapes as in ``Windows``; ids int64, weights float32.

        Returns:
            Numpy arrays of float32, shapes as in ``Outputs``.

        Raises:
            BackendError: The engine failed.
        """
        ...


@runtime_checkable
class ShapedBackend(Backend, Protocol):
    """An engine that was built for certain shapes, and wants its calls filled accordingly.

    Attributes:
        positions: The most positions of one call.
        step: Windows are padded to multiples of it.
        most_windows: The most windows of one call.
    """

    positions: int
    step: int
    most_windows: int


@runtime_checkable
class ConcurrentBackend(Backend, Protocol):
    """An engine that is fastest with several calls at once.

    Attributes:
        workers: How many.
    """

    workers: int


@runtime_checkable
class AllThreadsBackend(ConcurrentBackend, Protocol):
    """An engine of several workers that can give a call the threads of them all."""

    def run_all_threads(self, windows: Windows) -> Outputs:
        """Run the model once, on all threads: the same answer, sooner; see ``run``."""
        ...


def run_call(backend: Backend, windows: Windows, *, all_threads: bool = False) -> Outputs:
    """Run a model once.

    Args:
        backend: The model.
        windows: See ``Backend.run``.
        all_threads: Whether it may have all threads, where the engine can give them.

    Raises:
        BackendError: The engine failed.
    """
    if all_threads and isinstance(backend, AllThreadsBackend):
        return backend.run_all_threads(windows)
    return backend.run(windows)


def check_ends(file: str, inputs: Set[str], outputs: Set[str]) -> None:
    """Refuse a model that does not lead from ``Windows`` to ``Outputs``.

    Args:
        file: How messages name it.
        inputs: The names of its inputs.
        outputs: The names of its outputs.

    Raises:
        BundleError: An end is missing or unknown.
    """
    ends = (
        ("inputs", inputs, frozenset(Windows._fields), _OPTIONAL),
        ("outputs", outputs, frozenset(Outputs._fields), frozenset[str]()),
    )
    for end, given, wanted, optional in ends:
        missing, unknown = sorted(wanted - given - optional), sorted(given - wanted)
        if missing or unknown:
            raise BundleError(
                f"{file}: its {end} do not fit: missing {', '.join(missing) or 'none'}; "
                f"unknown {', '.join(unknown) or 'none'}"
            )


def probabilities(values: npt.ArrayLike, name: str) -> FloatArray:
    """Return ``values`` as float32 in [0, 1].

    Args:
        values: What an engine answered. *Shape:* any.
        name: The field of ``Outputs`` it stands in, for the message.

    Raises:
        BackendError: A value is not finite (the code is ``non_finite``), or lies outside [0, 1] by
            more than rounding.
    """
    array = np.asarray(values, dtype=np.float32)
    usable = np.isfinite(array) & (array >= -_ROUNDING) & (array <= 1 + _ROUNDING)
    if not usable.all():
        culprit = array[~usable].flat[0]
        raise BackendError(
            f"the engine answered {name} = {culprit} ({int((~usable).sum())} of {array.size} "
            "values are no probability); the model or its engine is broken, export the bundle "
            "again",
            code="backend_failed" if np.isfinite(array).all() else "non_finite",
        )
    return np.clip(array, 0.0, 1.0)
