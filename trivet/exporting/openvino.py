"""``trivet export --backend openvino``: what OpenVINO may run is measured, and the best is kept.

Three candidates (``Method``) judge labelled rows. The fastest of those is kept whose AUROC and RMSE
are as good as those of the fp32 graph but for 0.005.
"""

from __future__ import annotations

import datetime
import logging
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trivet.backends.backend import Backend
from trivet.backends.example_windows import make_windows
from trivet.backends.int8_sums import quick_sums_overflow
from trivet.backends.loading import load_tokenizer
from trivet.backends.onnx_runtime import OnnxRuntimeBackend
from trivet.backends.openvino import OpenVinoBackend, load_openvino
from trivet.bundle.bundle import (
    GRAPH_NAME,
    INT8_NAME,
    OPENVINO_NAME,
    OPENVINO_WEIGHTS_NAME,
    PARITY_NAME,
    SELF_TEST_NAME,
    Bundle,
    add_files,
    read_bundle,
)
from trivet.bundle.openvino_info import Method, OpenVinoCandidate, OpenVinoInfo
from trivet.bundle.self_test import SelfTest, read_self_test
from trivet.data.windows import Windows
from trivet.exporting.openvino_candidates import (
    Recorder,
    choose,
    describe,
    judge_rows,
    losses,
    time_windows,
)
from trivet.exporting.openvino_graphs import write_half, write_static
from trivet.exporting.parity import ParityReport, compare, grid, joined
from trivet.records import LabelledExample

logger = logging.getLogger(__name__)

METHODS: tuple[Method, ...] = ("static", "dynamic", "half")
# Calls that find the ranges of static int8.
_CALIBRATION = 100


@dataclass(frozen=True)
class _Model:
    """A candidate that is loaded: its files, and the engine that holds it."""

    file: Path
    weights: Path | None
    backend: OpenVinoBackend


def export_openvino(
    folder: Path,
    rows: Sequence[LabelledExample],
    data: str,
    split: str,
    *,
    keep_fp32: bool = True,
    threads: int | None = None,
) -> OpenVinoInfo:
    """Measure all candidates, keep the best one and note it in the bundle.

    Args:
        folder: A bundle that holds ``model.onnx`` and ``exporting.int8.onnx``.
        rows: Labelled, and not trained on: dev rows.
        data: What they are called.
        split: Their split.
        keep_fp32: Whether ``model.onnx`` stays; a serving bundle does without it.
        threads: Threads of the engines; ``None`` takes one for each core.

    Returns:
        What was kept; also in ``bundle.json``.

    Raises:
        BundleError: A graph is missing, or OpenVINO refuses it.
        DataError: No AUROC or no RMSE can be measured on these rows.
        BackendError: OpenVINO or nncf is missing, a row cannot be judged, or no candidate is good
            enough. The bundle stays as it is then.
    """
    bundle = read_bundle(folder)
    fp32 = OnnxRuntimeBackend(bundle.path(GRAPH_NAME), threads)
    bundle.path(INT8_NAME)
    openvino = load_openvino()
    recorder = Recorder(fp32)
    reference = judge_rows(bundle, recorder, rows, data)
    with tempfile.TemporaryDirectory() as scratch:
        models = {
            method: _load(bundle, method, recorder.calls, Path(scratch), threads)
            for method in METHODS
        }
        seconds = time_windows([m.backend for m in models.values()], recorder.calls)
        candidates = []
        for (method, model), taken in zip(models.items(), seconds, strict=True):
            auroc, rmse = losses(reference, judge_rows(bundle, model.backend, rows, data))
            candidates.append(
                OpenVinoCandidate(
                    method=method,
                    milliseconds=float(f"{1000 * taken:.4g}"),
                    auroc_loss=round(auroc, 5),
                    rmse_loss=round(rmse, 5),
                )
            )
            logger.info("openvino %s", describe(candidates[-1]))
        kept = models[choose(candidates).method]
        report = _compare(bundle, fp32, kept)
        info = OpenVinoInfo(
            file=kept.file.name,
            weights=kept.weights.name if kept.weights else None,
            method=choose(candidates).method,
            difference=max(report.worst.values()),
            data=data,
            split=split,
            rows=len(rows),
            openvino=str(openvino.__version__),
            date=datetime.date.today().isoformat(),
            candidates=tuple(candidates),
            exact_sums=not quick_sums_overflow(),
        )
        _keep(bundle, info, kept, report, keep_fp32, threads)
    return info


def _load(
    bundle: Bundle, method: Method, calls: Sequence[Windows], scratch: Path, threads: int | None
) -> _Model:
    """Write a candidate, where it needs files of its own, and compile it."""
    file, weights = bundle.path(INT8_NAME), None
    if method != "dynamic":
        folder = scratch / method
        folder.mkdir()
        if method == "static":
            write_static(bundle.path(GRAPH_NAME), _some(calls, _CALIBRATION), folder)
        else:
            write_half(bundle.path(GRAPH_NAME), folder)
        file, weights = folder / OPENVINO_NAME, folder / OPENVINO_WEIGHTS_NAME
    window = bundle.info.window.size
    backend = OpenVinoBackend(file, weights, window=window, bf16=True, threads=threads)
    return _Model(file, weights, backend)


def _some(calls: Sequence[Windows], most: int) -> Sequence[Windows]:
    """Return at most ``most`` calls, evenly spread."""
    return calls[:: -(-len(calls) // most)]


def _compare(bundle: Bundle, fp32: Backend, kept: _Model) -> ParityReport:
    """Compare what is kept with the fp32 graph, over the grid of shapes."""
    vocab = load_tokenizer(bundle).vocab_size
    cases = [
        (sizes, make_windows(sizes, vocab, seed))
        for seed, sizes in enumerate(grid(bundle.info.window.size))
    ]
    name = f"{kept.file.name} in OpenVINO"
    return compare(
        lambda windows: fp32.run(windows)._asdict(),
        {name: lambda windows: kept.backend.run(windows)._asdict()},
        cases,
    )


def _keep(
    bundle: Bundle,
    info: OpenVinoInfo,
    kept: _Model,
    report: ParityReport,
    keep_fp32: bool,
    threads: int | None,
) -> None:
    """Add files, parity and self-test to the bundle."""
    test = _record(bundle, info, kept, threads)
    graphs, gone = bundle.info.graphs, {OPENVINO_NAME, OPENVINO_WEIGHTS_NAME}
    if not keep_fp32:
        graphs = tuple(graph for graph in graphs if graph.file != GRAPH_NAME)
        gone.add(GRAPH_NAME)
        test = test.without(GRAPH_NAME)
    files: dict[str, bytes | Path] = {SELF_TEST_NAME: test.to_json().encode()}
    if kept.weights is not None:
        files |= {kept.file.name: kept.file, kept.weights.name: kept.weights}
    if bundle.has(PARITY_NAME):
        whole = joined(bundle.path(PARITY_NAME), report)
        files[PARITY_NAME] = whole.to_json().encode()
    changed = bundle.info.model_copy(update={"openvino": info, "graphs": graphs})
    add_files(bundle.folder, files, changed, without=gone - files.keys())


def _record(bundle: Bundle, info: OpenVinoInfo, kept: _Model, threads: int | None) -> SelfTest:
    """Store what is answered to the self-test with bf16, and where a processor has none."""
    test = read_self_test(bundle.path(SELF_TEST_NAME))
    windows = Windows(**test.arrays())
    for bf16 in (True, False):
        backend = OpenVinoBackend(
            kept.file, kept.weights, window=bundle.info.window.size, bf16=bf16, threads=threads
        )
        answer = backend.run(windows)._asdict()
        test = test.with_answers(info.answers(backend.bf16), info.precision, answer)
    return test
