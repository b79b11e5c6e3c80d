"""From the fp32 graph to what OpenVINO may run: static int8, or bf16, each as ``.xml`` and weights.

Static int8 is NNCF's post-training quantization: real windows go through the graph, and every
activation gets one range for all of its values. Heads stay as they are, as in
``trivet.exporting.int8``, whose graph is the third candidate and needs no file of its own.

Needs ``trivet[export]`` and ``trivet[openvino]``; nncf is used here alone.
"""

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
from trivet.records import BackendError

_HEADS = r"heads\..*"


def write_static(graph: Path, calls: Sequence[Windows], folder: Path) -> None:
    """Write the graph in int8 with the ranges that its activations take on real windows.

    Args:
        graph: The fp32 graph, as ``trivet export`` wrote it.
        calls: Engine calls made of labelled rows; all are run.
        folder: Where ``model.openvino.xml`` and ``.weights`` go.

    Raises:
        BackendError: nncf is not installed.
    """
    # It would send usage figures to its makers without asking; this is the switch it has.
    os.environ.setdefault("NNCF_CI", "1")
    try:
        import nncf
    except ImportError as error:
        raise BackendError(
            "nncf is not installed; pip install 'trivet[openvino-export]'"
        ) from error
    model = _read(graph)
    names = [port.any_name for port in model.inputs]
    logging.getLogger("nncf").setLevel(logging.WARNING)
    with contextlib.redirect_stdout(sys.stderr):  # its bars; stdout is for results
        quantized = nncf.quantize(
            model,
            nncf.Dataset(calls, lambda call: {name: call._asdict()[name] for name in names}),
            model_type=nncf.ModelType.TRANSFORMER,
            subset_size=len(calls),
            ignored_scope=nncf.IgnoredScope(patterns=[_HEADS]),
        )
    _save(quantized, folder, narrow=False)


def write_half(graph: Path, folder: Path) -> None:
    """Write the graph with 16-bit weights, for bf16 products; 16 bits of fp16 hold more of them.

    Args:
        graph: The fp32 graph.
        folder: As in ``write_static``.
    """
    _save(_read(graph), folder, narrow=True)


def _read(graph: Path) -> Any:
    import openvino

    return openvino.Core().read_model(str(graph))


def _save(model: Any, folder: Path, narrow: bool) -> None:
    """Store a model under the bundle's names: a bundle refuses ``.bin``, as pickles are called."""
    import openvino

    openvino.save_model(model, str(folder / OPENVINO_NAME), compress_to_fp16=narrow)
    (folder / OPENVINO_NAME).with_suffix(".bin").rename(folder / OPENVINO_WEIGHTS_NAME)
