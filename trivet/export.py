"""Export: a trained bundle becomes graphs that engines run, with proof that they answer alike.

- ``model.onnx``: fp32, standard operators only: any engine, any shape
- ``model.int8.onnx``: for ONNX Runtime on CPUs: int8 products, fused attention
- ``parity.json``: both against the weights in torch, over a grid of shapes
- ``self_test.json``: small inputs, and what each file answered to them here
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import onnxruntime
import torch

from trivet.data.windows import Windows
from trivet.model.aggregate import Outputs
from trivet.model.bundle import (
    GRAPH_NAME,
    INT8_NAME,
    PARITY_NAME,
    SELF_TEST_NAME,
    TOKENIZER_NAME,
    WEIGHTS_NAME,
    Bundle,
    GraphInfo,
    add_files,
    read_bundle,
    write_bundle,
)
from trivet.model.bundle_weights import load_rag_model
from trivet.model.example_windows import Sizes, make_windows
from trivet.model.graph import OPSET, trace
from trivet.model.inference import inference_model
from trivet.model.int8 import quantize
from trivet.model.parity import FP32_TOLERANCE, Engine, ParityReport, compare, grid
from trivet.model.rag_model import RagModel, as_tensors
from trivet.model.self_test import SelfTest
from trivet.records import BundleError, EngineError

logger = logging.getLogger(__name__)

Precision = Literal["fp32", "int8"]

_FILES: dict[Precision, str] = {"fp32": GRAPH_NAME, "int8": INT8_NAME}


def export_onnx(
    folder: Path,
    out: Path | None = None,
    *,
    keep: tuple[Precision, ...] | None = None,
    threads: int | None = None,
) -> ParityReport:
    """Write a bundle's graphs and compare them with its weights.

    Args:
        folder: A bundle with weights.
        out: Where to write a serving bundle without the weights; ``None`` adds the graphs to
            ``folder`` itself, whose weights stay.
        keep: Which graphs to write; ``None`` keeps both in ``folder``, and int8 alone in ``out``.
            Both are made and compared in any case. A graph of ``folder`` that is not kept goes.
        threads: Threads of ONNX Runtime; ``None`` takes one for each core.

    Returns:
        The parity report, as it also stands in the bundle.

    Raises:
        BundleError: The bundle is refused, ``out`` is ``folder``, or it holds something that no
            bundle wrote.
        EngineError: The fp32 graph differs from the weights by more than 1e-4 somewhere, or a graph
            answers with something that is not finite. Nothing is written then.
    """
    if out is not None and out.resolve() == folder.resolve():
        raise BundleError(
            f"{out}: a serving bundle has no weights and would replace these; leave out the output "
            "folder to add the graphs here"
        )
    bundle = read_bundle(folder)
    model = load_rag_model(bundle)
    with tempfile.TemporaryDirectory() as scratch:
        paths = _write_graphs(model, bundle.info.window.size, Path(scratch))
        engines = {path.name: _onnx_engine(path, threads) for path in paths.values()}
        report = _check_parity(model, engines, bundle.info.window.size)
        kept = keep or (("fp32", "int8") if out is None else ("int8",))
        test = _record_self_test(
            bundle, model, {_FILES[each]: engines[_FILES[each]] for each in kept}, out is None
        )
        files: dict[str, bytes | Path] = {_FILES[each]: paths[each] for each in kept}
        files[PARITY_NAME] = report.to_json().encode()
        files[SELF_TEST_NAME] = test.to_json().encode()
        graphs = tuple(
            GraphInfo(
                file=_FILES[each],
                precision=each,
                opset=OPSET,
                portable=each == "fp32",
                difference=report.worst[_FILES[each]],
            )
            for each in kept
        )
        info = bundle.info.model_copy(update={"graphs": graphs})
        if out is None:
            add_files(folder, files, info, without=set(_FILES.values()) - files.keys())
        else:
            tokenizer = bundle.path(TOKENIZER_NAME).read_text(encoding="utf-8")
            write_bundle(out, info, tokenizer, extra=files)
    logger.info("exported %s to %s: worst differences %s", folder, out or folder, report.worst)
    return report


def _write_graphs(model: RagModel, window: int, folder: Path) -> dict[Precision, Path]:
    """Trace the model twice: in standard operators, and for ONNX Runtime, which is quantized."""
    vocab = int(model.trunk.encoder.config.vocab_size)
    paths = {precision: folder / name for precision, name in _FILES.items()}
    onnx.save(trace(inference_model(model, window), vocab), paths["fp32"])
    onnx.save(quantize(trace(inference_model(model, window, fused=True), vocab)), paths["int8"])
    for precision, path in paths.items():
        logger.info("%s: %.1f MB (%s)", path.name, path.stat().st_size / 1e6, precision)
    return paths


def _check_parity(model: RagModel, engines: Mapping[str, Engine], window: int) -> ParityReport:
    """Compare, and refuse an fp32 graph that is not the model."""
    vocab = int(model.trunk.encoder.config.vocab_size)
    cases = [(sizes, make_windows(sizes, vocab, seed)) for seed, sizes in enumerate(grid(window))]
    report = compare(_torch_engine(model), engines, cases)
    if report.worst[GRAPH_NAME] > FP32_TOLERANCE:
        worst = max(report.rows, key=lambda row: max(row.differences[GRAPH_NAME].largest.values()))
        raise EngineError(
            f"{GRAPH_NAME} differs from the weights by {report.worst[GRAPH_NAME]:.2g} on "
            f"{worst.sizes}, which must be at most {FP32_TOLERANCE:g}; nothing was written"
        )
    return report


def _record_self_test(
    bundle: Bundle, model: RagModel, engines: Mapping[str, Engine], weights: bool
) -> SelfTest:
    """Store small windows and what every file that is kept answers to them."""
    sizes = Sizes(N=3, L=min(40, bundle.info.window.size), B=2, R=9, K=2, C=23, S=3)
    windows = make_windows(sizes, int(model.trunk.encoder.config.vocab_size), seed=7)
    answers = {
        file: ("int8" if file == INT8_NAME else "fp32", engine(windows))
        for file, engine in engines.items()
    }
    if weights:
        answers[WEIGHTS_NAME] = ("fp32", _torch_engine(model)(windows))
    return SelfTest.record(windows._asdict(), answers)


def _torch_engine(model: RagModel) -> Engine:
    """Return the model as something that takes and gives arrays."""

    def run(windows: Windows) -> Mapping[str, np.ndarray[Any, Any]]:
        with torch.inference_mode():
            outputs = model(*as_tensors(windows))
        return {name: tensor.numpy() for name, tensor in outputs._asdict().items()}

    return run


def _onnx_engine(path: Path, threads: int | None) -> Engine:
    """Return a graph in ONNX Runtime as something that takes and gives arrays."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    # On processors without VNNI int8 products would overflow; slower kernels that do not, there.
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(
        str(path), sess_options=options, providers=["CPUExecutionProvider"]
    )

    def run(windows: Windows) -> Mapping[str, np.ndarray[Any, Any]]:
        answer = session.run(list(Outputs._fields), windows._asdict())
        return dict(zip(Outputs._fields, answer, strict=True))

    return run
