"""``trivet export --quantize``: a graph with products in int8 or fp8 for cards, and what it loses.

Ranges are found on calls of labelled rows, as the evaluator packs them. Then the graph judges all
of these rows on a CPU, rounded as on a card, and is kept if AUROC and RMSE are as good as those of
the fp32 graph but for 0.005.
"""

from __future__ import annotations

import datetime
import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path

import onnx

from trivet.backends.backend import Backend
from trivet.backends.example_windows import make_windows
from trivet.backends.loading import load_tokenizer
from trivet.backends.onnx_runtime import OnnxRuntimeBackend
from trivet.backends.tensorrt_loading import find_graph
from trivet.bundle.bundle import (
    FP8_QDQ_NAME,
    GRAPH_NAME,
    INT8_QDQ_NAME,
    PARITY_NAME,
    SELF_TEST_NAME,
    Bundle,
    add_files,
    read_bundle,
)
from trivet.bundle.quantized_info import QuantizedInfo, QuantizedPrecision
from trivet.bundle.schema import GraphInfo
from trivet.bundle.self_test import read_self_test
from trivet.data.windows import Windows
from trivet.exporting.openvino_candidates import Recorder, judge
from trivet.exporting.parity import ParityReport, compare, grid, joined
from trivet.exporting.precision import Half, emulated
from trivet.exporting.qdq import EightBit, quantized
from trivet.exporting.quantized_rows import check_losses, measure_losses
from trivet.exporting.ranges import find_channel_sizes
from trivet.exporting.smoothing import smoothed
from trivet.records import LabelledExample

logger = logging.getLogger(__name__)

PRECISIONS: dict[EightBit, QuantizedPrecision] = {"int8": "int8-qdq", "fp8": "fp8-qdq"}
_FILES: dict[EightBit, str] = {"int8": INT8_QDQ_NAME, "fp8": FP8_QDQ_NAME}
# Calls that find the ranges.
_CALIBRATION = 100


def export_quantized(
    folder: Path,
    kind: EightBit,
    rows: Sequence[LabelledExample],
    data: str,
    split: str,
    *,
    half: Half = "bf16",
    threads: int | None = None,
) -> QuantizedInfo:
    """Calibrate, measure, and add the graph to the bundle.

    Args:
        folder: A bundle that holds ``model.onnx``; where it holds ``model.attention.onnx``, that is
            what is quantized.
        kind: Of the eight bits.
        rows: Labelled, and not trained on: dev rows.
        data: What they are called.
        split: Their split.
        half: What the other products run in.
        threads: Threads of ONNX Runtime; ``None`` takes one for each core.

    Returns:
        What was found; also in ``bundle.json``.

    Raises:
        BundleError: The bundle has no fp32 graph.
        DataError: No AUROC or no RMSE can be measured on these rows.
        BackendError: A row cannot be judged, or the graph loses too much. The bundle stays as it is.
    """
    bundle = read_bundle(folder)
    source = find_graph(bundle, "fp32")
    fp32 = OnnxRuntimeBackend(bundle.path(GRAPH_NAME), threads)
    recorder = Recorder(fp32)
    expected = judge(bundle, recorder, rows)
    calls = recorder.calls[:: max(1, -(-len(recorder.calls) // _CALIBRATION))]
    original = onnx.load(bundle.path(source.file))
    sizes = find_channel_sizes(original, calls, threads)
    if kind == "int8":  # fp8's steps grow with the numbers
        original, sizes = smoothed(original, sizes)
    ranges = {name: float(of.max()) for name, of in sizes.items()}
    graph = quantized(original, half, kind, ranges)
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / _FILES[kind]
        onnx.save(emulated(graph), file)
        backend = OnnxRuntimeBackend(file, threads)
    lost = measure_losses(rows, expected, judge(bundle, backend, rows), data)
    logger.info("%s in emulation: %s", _FILES[kind], lost)
    check_losses(lost, _FILES[kind])
    report = _compare(bundle, fp32, backend, _FILES[kind])
    info = QuantizedInfo(
        file=_FILES[kind],
        precision=PRECISIONS[kind],
        half=half,
        data=data,
        split=split,
        rows=len(rows),
        calls=len(calls),
        auroc_loss=lost.auroc,
        rmse_loss=lost.rmse,
        flipped=lost.flipped,
        date=datetime.date.today().isoformat(),
    )
    described = GraphInfo(
        file=info.file,
        precision=info.precision,
        opset=source.opset,
        portable=True,
        difference=report.worst[info.file],
    )
    _keep(bundle, graph, info, described, backend, report)
    return info


def _compare(bundle: Bundle, fp32: Backend, backend: Backend, file: str) -> ParityReport:
    """Compare the graph with the fp32 one, over the grid of shapes."""
    vocab = load_tokenizer(bundle).vocab_size
    cases = [
        (sizes, make_windows(sizes, vocab, seed))
        for seed, sizes in enumerate(grid(bundle.info.window.size))
    ]
    return compare(
        lambda windows: fp32.run(windows)._asdict(),
        {file: lambda windows: backend.run(windows)._asdict()},
        cases,
    )


def _keep(
    bundle: Bundle,
    graph: onnx.ModelProto,
    info: QuantizedInfo,
    described: GraphInfo,
    backend: Backend,
    report: ParityReport,
) -> None:
    """Add graph, parity and self-test to the bundle; an older graph of the same kind goes."""
    test = read_self_test(bundle.path(SELF_TEST_NAME))
    answer = backend.run(Windows(**test.arrays()))._asdict()
    test = test.with_answers(info.file, info.precision, answer)
    files: dict[str, bytes | Path] = {
        info.file: graph.SerializeToString(),
        SELF_TEST_NAME: test.to_json().encode(),
    }
    if bundle.has(PARITY_NAME):
        files[PARITY_NAME] = joined(bundle.path(PARITY_NAME), report).to_json().encode()
    old = bundle.info
    changed = {
        "graphs": (*(each for each in old.graphs if each.file != info.file), described),
        "quantized": (*(each for each in old.quantized if each.file != info.file), info),
    }
    add_files(bundle.folder, files, old.model_copy(update=changed))
