"""Export the ONNX graphs of a trained bundle and compare them with its weights.

- ``model.onnx``: fp32 in standard operators, any backend and shape
- ``model.int8.onnx``: int8 matmuls and fused attention, for ONNX Runtime on CPUs
- ``model.attention.onnx`` (optional): fp32 with ONNX's ``Attention`` (opset 23), for TensorRT
- ``model.bf16.onnx``, ``model.fp16.onnx`` (optional): 16-bit matmuls, for TensorRT
- ``model.onnx.weights``, and so on: the weights of a graph that has more than 2 GB of them
- ``parity.json``: differences from the weights in torch, over a grid of shapes
- ``self_test.json``: small inputs, and the answers of each file, and of the weights, to them

A new export removes the OpenVINO model of an earlier one, which may be of other weights.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import onnx
import onnxruntime
import torch

from trivet.backends.onnx_runtime import keep_int8_sums_exact
from trivet.backends.profiles import Sizes, make_windows
from trivet.bundle.bundle import (
    ATTENTION_NAME,
    BF16_NAME,
    EXTERNAL_SUFFIX,
    FP16_NAME,
    GRAPH_NAME,
    INT8_NAME,
    OPENVINO_NAME,
    OPENVINO_WEIGHTS_NAME,
    PARITY_NAME,
    SELF_TEST_NAME,
    TEXTS_NAME,
    TOKENIZER_NAME,
    WEIGHTS_NAME,
    Bundle,
    add_files,
    check_folder,
    read_bundle,
    write_bundle,
)
from trivet.bundle.info import GraphInfo
from trivet.bundle.self_test import SelfTest
from trivet.bundle.weights import load_rag_model
from trivet.data.windows import Windows
from trivet.errors import BackendError, BundleError
from trivet.exporting.graph import OPSET, trace
from trivet.exporting.graph_files import ATTENTION_OPSET, save_graph
from trivet.exporting.int8 import quantize
from trivet.exporting.parity import FP32_TOLERANCE, ParityReport, Run, compare, grid_windows
from trivet.exporting.precision import Half, emulated, mixed
from trivet.model.inference.layer import Form
from trivet.model.inference.rag_inference import inference_model
from trivet.model.rag_model import RagModel, as_tensors, to_numpy
from trivet.settings import Precision

logger = logging.getLogger(__name__)


class _Kind(NamedTuple):
    """One kind of graph."""

    file: str
    precision: Precision
    form: Form
    opset: int


_KINDS = {
    "fp32": _Kind(GRAPH_NAME, "fp32", "portable", OPSET),
    "int8": _Kind(INT8_NAME, "int8", "runtime", OPSET),
    "attention": _Kind(ATTENTION_NAME, "fp32", "attention", ATTENTION_OPSET),
}
_HALVES: dict[Half, str] = {"bf16": BF16_NAME, "fp16": FP16_NAME}
_FILES = {kind.file for kind in _KINDS.values()} | set(_HALVES.values())
_FILES |= {name.replace(".onnx", ".portable.onnx") for name in _HALVES.values()}
_FILES |= {name + EXTERNAL_SUFFIX for name in _FILES}
_FILES |= {OPENVINO_NAME, OPENVINO_WEIGHTS_NAME}


def export_onnx(
    folder: Path,
    out: Path | None = None,
    *,
    keep: tuple[Precision, ...] | None = None,
    form: Literal["portable", "attention"] = "portable",
    threads: int | None = None,
) -> ParityReport:
    """Write a bundle's graphs and compare them with its weights.

    Args:
        folder: A bundle with weights, or with an int8 graph that they are read back from.
        out: Folder for a serving bundle without weights; ``None`` adds the graphs to ``folder``.
        keep: Precisions to write; ``None`` means fp32 and int8 in ``folder``, int8 alone in
            ``out``. Both are always made and compared; other graphs of ``folder`` are removed.
            ``bf16`` and ``fp16`` are compared in emulation (``precision.emulated``).
        form: ``attention`` also writes ``model.attention.onnx`` and derives bf16 and fp16 from it.
        threads: Threads of ONNX Runtime; ``None`` uses one per core.

    Raises:
        BundleError: The bundle is refused, ``out`` is ``folder`` or holds other files, or the
            bundle is read only and there is no ``out``.
        BackendError: The fp32 graph differs from the weights by more than 1e-4, or an output is not
            finite. Nothing is written then.
    """
    if out is not None and out.resolve() == folder.resolve():
        raise BundleError(
            f"{out}: a serving bundle has no weights and would replace these; leave out the output "
            "folder to add the graphs here"
        )
    bundle = read_bundle(folder)
    if out is None:
        bundle.check_writable()
    else:
        check_folder(out)
    model = load_rag_model(bundle)
    with tempfile.TemporaryDirectory() as scratch:
        extra = ("attention",) if form == "attention" else ()
        paths = {
            name: _write_graph(model, bundle, _KINDS[name], Path(scratch))
            for name in ("fp32", "int8", *extra)
        }
        kinds = dict(_KINDS)
        for half in _HALVES.keys() & set(keep or ()):
            source = extra[0] if extra else "fp32"
            kinds[half] = _KINDS[source]._replace(file=_HALVES[half], precision=half)
            paths[half] = Path(scratch) / _HALVES[half]
            save_graph(mixed(onnx.load(paths[source]), half), paths[half])
        runs = {path.name: _onnx_run(path, threads) for path in paths.values()}
        report = _check_parity(model, runs, bundle.info.window.size)
        names = (*(keep or (("fp32", "int8") if out is None else ("int8",))), *extra)
        kept = {kinds[name]: paths[name] for name in names}
        kept_runs = {kind: runs[kind.file] for kind in kept}
        sizes = Sizes(N=3, L=min(40, bundle.info.window.size), B=2, R=9, K=2, C=23, S=3)
        windows = make_windows(sizes, int(model.trunk.config.vocab_size), seed=7)
        answers = {
            kind.file: (str(kind.precision), run(windows)) for kind, run in kept_runs.items()
        }
        if out is None and bundle.has(WEIGHTS_NAME):
            answers[WEIGHTS_NAME] = ("fp32", _torch_run(model)(windows))
        test = SelfTest.record(windows._asdict(), answers)
        files: dict[str, bytes | Path] = {
            file.name: file
            for path in kept.values()
            for file in (path, path.with_name(path.name + EXTERNAL_SUFFIX))
            if file.exists()
        }
        files[PARITY_NAME] = report.to_json().encode()
        files[SELF_TEST_NAME] = test.to_json().encode()
        graphs = tuple(
            GraphInfo(
                file=kind.file,
                precision=kind.precision,
                opset=kind.opset,
                portable=kind.form != "runtime",
                difference=report.worst[kind.file],
                sums_fit=kind.precision == "int8",
            )
            for kind in kept
        )
        changed = {"graphs": graphs, "engines": (), "openvino": None}
        info = bundle.info.model_copy(update=changed)
        if out is None:
            add_files(folder, files, info, without=_FILES - files.keys())
        else:
            tokenizer = bundle.path(TOKENIZER_NAME).read_text(encoding="utf-8")
            write_bundle(out, info, tokenizer, extra=files | bundle.contents(TEXTS_NAME))
        _record_read_back(out or folder, test, windows)
    logger.info("exported %s to %s: worst differences %s", folder, out or folder, report.worst)
    return report


def _write_graph(
    model: RagModel,
    bundle: Bundle,
    kind: _Kind,
    folder: Path,
) -> Path:
    """Trace and write one graph."""
    inference = inference_model(model, bundle.info.window.size, kind.form)
    vocab = int(model.trunk.config.vocab_size)
    graph = trace(inference, vocab, kind.opset, heads=list(model.heads))
    if kind.precision == "int8":
        graph = quantize(graph)
    path = folder / kind.file
    written = save_graph(graph, path)
    logger.info("%s: %.1f MB", kind.file, sum(file.stat().st_size for file in written) / 1e6)
    return path


def _check_parity(model: RagModel, runs: Mapping[str, Run], window: int) -> ParityReport:
    """Compare all graphs with the weights; refuse an fp32 graph that differs too much."""
    cases = grid_windows(window, int(model.trunk.config.vocab_size))
    report = compare(_torch_run(model), runs, cases)
    for file in runs.keys() & {GRAPH_NAME, ATTENTION_NAME}:
        if report.worst[file] > FP32_TOLERANCE:
            largest = {max(row.differences[file].largest.values()): row for row in report.rows}
            raise BackendError(
                f"{file} differs from the weights by {report.worst[file]:.2g} on "
                f"{largest[max(largest)].sizes}, which must be at most {FP32_TOLERANCE:g}; "
                "nothing was written"
            )
    return report


def _record_read_back(folder: Path, test: SelfTest, windows: Windows) -> None:
    """Add the answers of the weights that are read back from an int8 graph, if they can be.

    They round to the graph's integers, but torch computes with unrounded states: against the
    answers of the graph its own would need a tolerance that hides errors.
    """
    written = read_bundle(folder)
    if written.has(WEIGHTS_NAME) or not written.has(INT8_NAME):
        return
    try:
        model = load_rag_model(written)
    except BundleError as error:
        logger.info("no answers of the weights in the self-test: %s", error)
        return
    test = test.with_answers(WEIGHTS_NAME, "fp32", _torch_run(model)(windows))
    add_files(folder, {SELF_TEST_NAME: test.to_json().encode()})


def _torch_run(model: RagModel) -> Run:
    """Return a function that runs the model in torch on arrays."""

    def run(windows: Windows) -> Mapping[str, np.ndarray[Any, Any]]:
        with torch.inference_mode():
            outputs = model(*as_tensors(windows))
        return to_numpy(outputs).present()

    return run


def _onnx_run(path: Path, threads: int | None) -> Run:
    """Return a function that runs a graph in ONNX Runtime, 16-bit graphs in emulation."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    keep_int8_sums_exact(options)
    graph = path
    if path.name in _HALVES.values():
        graph = path.with_name(f"emulated.{path.name}")
        save_graph(emulated(onnx.load(path)), graph)
    session = onnxruntime.InferenceSession(
        str(graph), sess_options=options, providers=["CPUExecutionProvider"]
    )
    names = [node.name for node in session.get_outputs()]

    def run(windows: Windows) -> Mapping[str, np.ndarray[Any, Any]]:
        return dict(zip(names, session.run(names, windows._asdict()), strict=True))

    return run
