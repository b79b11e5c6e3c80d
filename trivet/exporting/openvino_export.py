"""Measure the candidate models for OpenVINO on labelled rows and keep the best one.

The fastest candidate is kept whose AUROC and RMSE are at most 0.005 worse than those of the fp32
graph. The rows decide, because a small numerical difference says little about verdicts.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trivet.backends.backend import Backend
from trivet.backends.onnx_runtime import OnnxRuntimeBackend, quick_sums_overflow
from trivet.backends.opening import load_tokenizer
from trivet.backends.openvino import OpenVinoBackend, load_openvino
from trivet.bundle.backend_info import MAX_LOSS, Method, OpenVinoCandidate, OpenVinoInfo
from trivet.bundle.bundle import (
    EXTERNAL_SUFFIX,
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
from trivet.bundle.self_test import read_self_test
from trivet.data.windows import Windows
from trivet.errors import BackendError, install_line
from trivet.exporting.parity import (
    ParityReport,
    compare,
    grid_windows,
    losses,
    measure_rows,
    merge_into,
)
from trivet.model.aggregate import Outputs
from trivet.records import LabelledExample

logger = logging.getLogger(__name__)

METHODS: tuple[Method, ...] = ("static", "dynamic", "half")
# Calls used for the ranges of static int8.
_CALIBRATION = 100
# Timed calls, and rounds over them.
_TIMED, _ROUNDS = 4, 5


@dataclass(frozen=True)
class _Model:
    """A loaded candidate with its files."""

    file: Path
    weights: Path | None
    backend: OpenVinoBackend


class _Recorder:
    """A backend that keeps the windows of its calls."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self.name = backend, backend.name
        self.calls: list[Windows] = []

    def run(self, windows: Windows) -> Outputs:
        """Run the backend; see ``Backend.run``."""
        self.calls.append(windows)
        return self._backend.run(windows)


def export_openvino(
    folder: Path,
    rows: Sequence[LabelledExample],
    data: str,
    split: str,
    *,
    keep_fp32: bool = True,
    threads: int | None = None,
) -> OpenVinoInfo:
    """Measure all candidates, keep the best one and record it in the bundle.

    Args:
        folder: A bundle that holds ``model.onnx`` and ``model.int8.onnx``.
        rows: Labelled rows that were not trained on.
        data: Name of the rows.
        split: Split of the rows.
        keep_fp32: Whether ``model.onnx`` stays; a serving bundle does not need it.
        threads: Threads of the backends; ``None`` uses one per core.

    Raises:
        BundleError: A graph is missing, or OpenVINO refuses it.
        DataError: No AUROC or no RMSE can be measured on these rows.
        BackendError: OpenVINO or nncf is missing, a row fails, or no candidate is good enough. The
            bundle is unchanged then.
    """
    bundle = read_bundle(folder)
    bundle.check_writable()
    fp32 = OnnxRuntimeBackend(bundle.path(GRAPH_NAME), threads)
    bundle.path(INT8_NAME)
    openvino = load_openvino()
    recorder = _Recorder(fp32)
    reference = measure_rows(bundle, recorder, rows, data)
    with tempfile.TemporaryDirectory() as scratch:
        models = {
            method: _load(bundle, method, recorder.calls, Path(scratch), threads)
            for method in METHODS
        }
        seconds = time_windows([m.backend for m in models.values()], recorder.calls)
        candidates = []
        for (method, model), taken in zip(models.items(), seconds, strict=True):
            auroc, rmse = losses(reference, measure_rows(bundle, model.backend, rows, data))
            candidates.append(
                OpenVinoCandidate(
                    method=method,
                    milliseconds=float(f"{1000 * taken:.4g}"),
                    auroc_loss=round(auroc, 5),
                    rmse_loss=round(rmse, 5),
                )
            )
            logger.info("openvino %s", describe(candidates[-1]))
        best = choose(candidates).method
        kept = models[best]
        name = f"{kept.file.name} in OpenVINO"
        report = compare(
            lambda windows: fp32.run(windows).present(),
            {name: lambda windows: kept.backend.run(windows).present()},
            grid_windows(bundle.info.window.size, load_tokenizer(bundle).vocab_size),
        )
        info = OpenVinoInfo(
            file=kept.file.name,
            weights=kept.weights.name if kept.weights else None,
            method=best,
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


def time_windows(backends: Sequence[Backend], calls: Sequence[Windows]) -> list[float]:
    """Return each backend's median seconds per window over the largest calls.

    The backends take turns, so that other load on the machine affects all of them alike.
    """
    largest = sorted(calls, key=lambda call: -call.input_ids.size)[:_TIMED]
    windows = sum(len(call.input_ids) for call in largest)
    taken: list[list[float]] = [[] for _ in backends]
    for _ in range(1 + _ROUNDS):
        for seconds, backend in zip(taken, backends, strict=True):
            started = time.perf_counter()
            for call in largest:
                backend.run(call)
            seconds.append((time.perf_counter() - started) / windows)
    return [statistics.median(seconds[1:]) for seconds in taken]


def choose(candidates: Sequence[OpenVinoCandidate]) -> OpenVinoCandidate:
    """Return the fastest candidate whose losses are within the limit.

    Raises:
        BackendError: There is none; the message lists all figures.
    """
    fitting = [candidate for candidate in candidates if candidate.fits]
    if not fitting:
        raise BackendError(
            f"no candidate for OpenVINO loses at most {MAX_LOSS} of AUROC and RMSE: "
            f"{'; '.join(map(describe, candidates))}. Nothing was written; stay with --backend "
            "onnx, or give more rows if these are few"
        )
    return min(fitting, key=lambda candidate: candidate.milliseconds)


def describe(candidate: OpenVinoCandidate) -> str:
    """Return a candidate's figures as text."""
    return (
        f"{candidate.method}: {candidate.milliseconds:.1f} ms per window, AUROC "
        f"{-candidate.auroc_loss:+.4f}, RMSE {candidate.rmse_loss:+.4f}"
    )


def _load(
    bundle: Bundle, method: Method, calls: Sequence[Windows], scratch: Path, threads: int | None
) -> _Model:
    """Write a candidate's files, if it needs its own, and compile it."""
    file, weights = bundle.path(INT8_NAME), None
    if method != "dynamic":
        folder = scratch / method
        folder.mkdir()
        if method == "static":
            spread = calls[:: -(-len(calls) // _CALIBRATION)]
            write_static(bundle.path(GRAPH_NAME), spread, folder)
        else:
            _save(_read(bundle.path(GRAPH_NAME)), folder, narrow=True)  # for bf16 matmuls
        file, weights = folder / OPENVINO_NAME, folder / OPENVINO_WEIGHTS_NAME
    window = bundle.info.window.size
    backend = OpenVinoBackend(file, weights, window=window, bf16=True, threads=threads)
    return _Model(file, weights, backend)


def _keep(
    bundle: Bundle,
    info: OpenVinoInfo,
    kept: _Model,
    report: ParityReport,
    keep_fp32: bool,
    threads: int | None,
) -> None:
    """Add the files, their parity, and their self-test with and without bf16 to the bundle."""
    test = read_self_test(bundle.path(SELF_TEST_NAME))
    windows, window = Windows(**test.arrays()), bundle.info.window.size
    for bf16 in (True, False):
        backend = OpenVinoBackend(
            kept.file, kept.weights, window=window, bf16=bf16, threads=threads
        )
        answer = backend.run(windows).present()
        test = test.with_answers(info.answers(backend.bf16), info.precision, answer)
    graphs, gone = bundle.info.graphs, {OPENVINO_NAME, OPENVINO_WEIGHTS_NAME}
    if not keep_fp32:
        graphs = tuple(graph for graph in graphs if graph.file != GRAPH_NAME)
        gone |= {GRAPH_NAME, GRAPH_NAME + EXTERNAL_SUFFIX}
        test = test.without(GRAPH_NAME)
    files: dict[str, bytes | Path] = {SELF_TEST_NAME: test.to_json().encode()}
    if kept.weights is not None:
        files |= {kept.file.name: kept.file, kept.weights.name: kept.weights}
    if bundle.has(PARITY_NAME):
        files[PARITY_NAME] = merge_into(bundle.path(PARITY_NAME), report).to_json().encode()
    changed = bundle.info.model_copy(update={"openvino": info, "graphs": graphs})
    add_files(bundle.folder, files, changed, without=gone - files.keys())


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
        raise BackendError(f"nncf is not installed; {install_line('export')}") from error
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


def _read(graph: Path) -> Any:
    import openvino

    return openvino.Core().read_model(str(graph))


def _save(model: Any, folder: Path, narrow: bool) -> None:
    """Store a model under the bundle's names: a bundle refuses ``.bin``, a suffix of pickles."""
    import openvino

    openvino.save_model(model, str(folder / OPENVINO_NAME), compress_to_fp16=narrow)
    (folder / OPENVINO_NAME).with_suffix(".bin").rename(folder / OPENVINO_WEIGHTS_NAME)
