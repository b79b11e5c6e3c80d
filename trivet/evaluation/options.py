"""Checks of the arguments of an evaluator, before anything is loaded."""

from __future__ import annotations

import difflib
import numbers
import os
from typing import get_args

from trivet.backends.backend import Precision
from trivet.backends.device import is_device
from trivet.backends.loading import BackendName
from trivet.errors import BackendError


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


def check_threshold(threshold: float | None) -> None:
    """Refuse a sentence threshold outside [0, 1].

    Raises:
        TypeError: It is no number.
        ValueError: The message has the value, and of a percentage the share to write.
    """
    if threshold is None:
        return
    if isinstance(threshold, bool | str) or not hasattr(threshold, "__float__"):
        raise TypeError(f"threshold must be a number in [0, 1], not {threshold!r}")
    if not 0 <= threshold <= 1:
        share = f"; write {threshold / 100:.2f} for {threshold:g} %" * (1 < threshold <= 100)
        raise ValueError(f"threshold must be in [0, 1], got {threshold:g}{share}")


def _check_name(option: str, given: object, names: tuple[str, ...]) -> None:
    if given in names:
        return
    low = str(given).lower()
    near = difflib.get_close_matches(low, names, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    if low == "gpu" or is_device(low):
        hint = f"; a device is another option: device={'cuda' if low == 'gpu' else low!r}"
    raise BackendError(f"no {option} {given!r}; use {', '.join(names)}{hint}")
