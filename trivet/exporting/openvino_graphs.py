"""Convert the fp32 graph to OpenVINO models: static int8 by NNCF, or 16-bit weights."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trivet.bundle.bundle import OPENVINO_NAME, OPENVINO_WEIGHTS_NAME
from trivet.data.windows import Windows
from trivet.errors import BackendError, install_line

_HEADS = r"heads\..*"


def write_static(graph: Path, calls: Sequence[Windows], folder: Path) -> None:
    """Write the graph in int8, except the heads, with activation ranges found by ``calls``.

    Raises:
        BackendError: nncf is not installed.
    """
    # Turns off nncf's telemetry.
    os.environ.setdefault("NNCF_CI", "1")
    try:
        import nncf
    except ImportError as error:
        raise BackendError(f"nncf is not installed; {install_line('openvino-export')}") from error
    model = _read(graph)
    names = [port.any_name for port in model.inputs]
    logging.getLogger("nncf").setLevel(logging.WARNING)
    with contextlib.redirect_stdout(sys.stderr):  # progress bars; stdout is for results
        quantized = nncf.quantize(
            model,
            nncf.Dataset(calls, lambda call: {name: call._asdict()[name] for name in names}),
            model_type=nncf.ModelType.TRANSFORMER,
            subset_size=len(calls),
            ignored_scope=nncf.IgnoredScope(patterns=[_HEADS]),
        )
    _save(quantized, folder, narrow=False)


def write_half(graph: Path, folder: Path) -> None:
    """Write the graph with fp16 weights, for bf16 matmuls; arguments as of ``write_static``."""
    _save(_read(graph), folder, narrow=True)


def _read(graph: Path) -> Any:
    import openvino

    return openvino.Core().read_model(str(graph))


def _save(model: Any, folder: Path, narrow: bool) -> None:
    """Store a model under the bundle's names: a bundle refuses ``.bin``, a suffix of pickles."""
    import openvino

    openvino.save_model(model, str(folder / OPENVINO_NAME), compress_to_fp16=narrow)
    (folder / OPENVINO_NAME).with_suffix(".bin").rename(folder / OPENVINO_WEIGHTS_NAME)
