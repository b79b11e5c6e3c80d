"""Build a TensorRT engine, compare it with fp32, and keep it only if it passes.

Kernels of single GPU models are known to compute wrong results silently. So every engine is
compared on the machine that will run it: on windows with and without padding, in every profile,
and by AUROC, RMSE and verdicts on labelled rows, because rounding says little about verdicts.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import importlib.util
import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from trivet.backends.backend import Backend
from trivet.backends.device import find_gpu
from trivet.backends.onnx_runtime import OnnxRuntimeBackend
from trivet.backends.opening import find_graphs, load_tokenizer
from trivet.backends.profiles import Sizes, make_profiles, make_windows
from trivet.backends.tensorrt import TensorRTBackend
from trivet.backends.tensorrt_build import (
    EngineCache,
    Progress,
    build_engine,
    find_target,
    no_progress,
)
from trivet.bundle.backend_info import EngineInfo, EnginePrecision, ShapeRange
from trivet.bundle.bundle import (
    GRAPH_NAME,
    SELF_TEST_NAME,
    WEIGHTS_NAME,
    Bundle,
    add_files,
    read_bundle,
)
from trivet.bundle.info import GraphInfo
from trivet.bundle.self_test import read_self_test
from trivet.data.windows import Windows
from trivet.errors import BackendError, BundleError
from trivet.evaluation.evaluator import Evaluator
from trivet.exporting.graph_files import ATTENTION_OPSET, save_graph
from trivet.exporting.parity import Result, compare, losses, measure_results
from trivet.exporting.precision import mixed
from trivet.records import Evaluation, LabelledExample

logger = logging.getLogger(__name__)

# Largest loss of AUROC and of RMSE, and largest share of changed verdicts, on labelled rows. One
# verdict of a few rows says nothing.
MAX_LOSS = 0.003
MAX_FLIPPED = 0.005
LEAST_ROWS = 1000
# Largest mean difference of a token's probability on random windows: more is not rounding, but a
# wrong kernel.
MAX_MEAN = {"fp32": 1e-4, "bf16": 0.05, "fp16": 0.02}
_TOKENS = ("support_probs", "relevance_probs", "utilization_probs")
_ADVICE = {
    "bf16": "fp16 rounds eight times finer where its range is enough: try --precision fp16",
    "fp16": "bf16 has fp32's range: try --precision bf16, or fp32",
    "fp32": "TensorRT computes wrong results on this GPU; use --backend torch or onnx",
}


class _Source(NamedTuple):
    """A graph that an engine is built from."""

    graph: GraphInfo
    path: Path
    sha256: str
    missing: Mapping[str, bytes | Path] = {}  # files that the bundle needs with such an engine


def export_tensorrt(
    folder: Path,
    rows: Sequence[LabelledExample],
    data: str,
    precision: EnginePrecision = "fp16",
    progress: Progress = no_progress,
) -> EngineInfo:
    """Build an engine from a bundle's graph, compare it, cache it, and describe it in the bundle.

    Where the graph with fused attention cannot be built or answers wrongly, the portable one is
    built instead, with a warning.

    Args:
        folder: A bundle that holds the graph in ``precision``, and weights or ``model.onnx``.
        rows: Labelled rows that were not trained on.
        data: Name of the rows.
        precision: Precision of the graph.
        progress: Called with the name of a step, the work done and all of its work.

    Raises:
        BundleError: A graph is missing.
        DataError: No AUROC or no RMSE can be measured on these rows.
        BackendError: TensorRT or a GPU is missing, the engine cannot be built, or its answers
            differ too much. Nothing is kept then.
    """
    bundle = read_bundle(folder)
    bundle.check_writable()
    graph = find_graphs(bundle, precision)[0]
    target, cache = find_target(), EngineCache()
    profiles = make_profiles(bundle.info.window.size)
    reference = make_reference(bundle)
    expected = list(_results(bundle, reference, rows, "reference", progress))
    measure_results(reference.name, rows, expected, data)  # refuses rows before the long build
    source = _source_in(bundle, graph)
    with tempfile.TemporaryDirectory() as scratch:
        while True:
            try:
                built = build_engine(source.path, profiles, cache, progress)
                info = EngineInfo(
                    graph=source.graph.file,
                    graph_sha256=source.sha256,
                    precision=precision,
                    target=target,
                    profiles=profiles,
                    engine_sha256=hashlib.sha256(built.plan).hexdigest(),
                    build_seconds=round(built.seconds, 1),
                    date=datetime.date.today().isoformat(),
                    difference=0.0,
                )
                engine = TensorRTBackend(built.plan, info)
                info = check_windows(bundle, info, engine, reference)
                results = list(_results(bundle, engine, rows, "engine", progress))
                info = check_rows(info, rows, expected, results, data)
                break
            except BackendError as error:
                if not _is_fused(bundle, source.graph):
                    raise
                logger.warning("%s; building the portable graph instead, which is slower", error)
                source = _portable(bundle, source.graph, Path(scratch))
        path = cache.put(built.plan, info)
        logger.info(
            "%s kept: built in %.0f s, differs by %.2g from fp32, %d verdicts changed",
            path,
            info.build_seconds,
            info.difference,
            info.flipped,
        )
        graphs = (*bundle.info.graphs, source.graph) if source.missing else bundle.info.graphs
        others = tuple(engine for engine in bundle.info.engines if engine.key != info.key)
        changed = {"graphs": graphs, "engines": (*others, info)}
        add_files(folder, source.missing, bundle.info.model_copy(update=changed))
    return info


def make_reference(bundle: Bundle) -> Backend:
    """Return the bundle in fp32: in torch on the GPU if it has weights, else in ONNX Runtime.

    Raises:
        BundleError: The bundle has neither weights for torch nor ``model.onnx``.
    """
    if (
        bundle.has(WEIGHTS_NAME)
        and find_gpu(None) is not None
        and importlib.util.find_spec("torch") is not None
    ):
        try:
            from trivet.backends.torch import load_torch

            return load_torch(bundle, precision="fp32").backend
        except (BackendError, ImportError) as error:
            logger.warning("%s; the reference runs on the CPU", error)
    if not bundle.has(GRAPH_NAME):
        raise BundleError(
            f"{bundle.folder}: an engine is compared with {GRAPH_NAME}, which is missing; run "
            f"`trivet export onnx {bundle.folder} --precision fp16` where the weights are"
        )
    return OnnxRuntimeBackend(bundle.path(GRAPH_NAME))


def check_windows(
    bundle: Bundle, info: EngineInfo, engine: Backend, reference: Backend
) -> EngineInfo:
    """Compare an engine with fp32 on random windows; return ``info`` with the difference.

    Raises:
        BackendError: An answer is not finite, or the mean difference of an output is too large.
    """
    cases = list(parity_cases(info.profiles, load_tokenizer(bundle).vocab_size))
    report = compare(
        lambda windows: reference.run(windows).present(),
        {"engine": lambda windows: engine.run(windows).present()},
        cases,
    )
    most = MAX_MEAN[info.precision]
    for row in report.rows:
        means = row.differences["engine"].mean
        mean = max(means[name] for name in _TOKENS if name in means)
        if mean > most:
            raise BackendError(
                f"the engine of {info.graph} differs from fp32 by {mean:.2g} in the mean on "
                f"{row.sizes}, which must be at most {most:g} in {info.precision}; it was not "
                f"kept. {_ADVICE[info.precision]}"
            )
    return info.model_copy(update={"difference": report.worst["engine"]})


def check_rows(
    info: EngineInfo,
    rows: Sequence[LabelledExample],
    expected: Sequence[Result],
    results: Sequence[Result],
    data: str,
) -> EngineInfo:
    """Compare the results of an engine with those of fp32; return ``info`` with the losses.

    Raises:
        BackendError: AUROC or RMSE is worse by more than ``MAX_LOSS``, or at least ``LEAST_ROWS``
            rows show that more than ``MAX_FLIPPED`` of the verdicts change.
    """
    auroc, rmse = losses(
        measure_results("the reference", rows, expected, data),
        measure_results("the engine", rows, results, data),
    )
    flipped = sum(
        _verdict(result) != _verdict(other) for result, other in zip(expected, results, strict=True)
    )
    fault = None
    if max(auroc, rmse) > MAX_LOSS:
        fault = (
            f"loses {auroc:.4f} of AUROC and {rmse:.4f} of RMSE on {len(rows)} rows; each may "
            f"lose at most {MAX_LOSS:g}"
        )
    elif len(rows) >= LEAST_ROWS and flipped > MAX_FLIPPED * len(rows):
        fault = f"changes {flipped} of {len(rows)} verdicts; at most {MAX_FLIPPED:.1%} may change"
    if fault is not None:
        raise BackendError(
            f"the engine of {info.graph} {fault}; it was not kept. {_ADVICE[info.precision]}"
        )
    measured = {"auroc_loss": round(auroc, 5), "rmse_loss": round(rmse, 5)}
    return info.model_copy(update={"rows": len(rows), "flipped": flipped, **measured})


def parity_cases(profiles: tuple[ShapeRange, ...], vocab: int) -> Iterator[tuple[Sizes, Windows]]:
    """Yield windows for every profile: padded ones of odd length, and full ones without padding.

    The padded ones come twice with different ids, because small calls are captured first and
    replayed after. The full ones are as many as the profile takes.
    """
    for seed, profile in enumerate(profiles):
        length, n, many = profile.most["L"], profile.least["N"], profile.most["N"]
        shorter = Sizes(N=n, L=length - 1, B=1, R=min(31, length), K=n, C=2 * length, S=3)
        yield shorter, make_windows(shorter, vocab, seed)
        yield shorter, make_windows(shorter, vocab, len(profiles) + seed)
        full = Sizes(N=many, L=length, B=many, R=length // 3, K=2, C=length, S=1)
        yield full, _without_padding(make_windows(full, vocab, seed), vocab, seed)


def _results(
    bundle: Bundle,
    backend: Backend,
    rows: Sequence[LabelledExample],
    name: str,
    progress: Progress,
) -> Iterator[Result]:
    """Evaluate rows with a backend, reporting the progress."""
    results = Evaluator(bundle.folder, backend=backend).evaluate_many(row.example for row in rows)
    for number, result in enumerate(results, start=1):
        progress(f"rows, {name}", number, len(rows))
        yield result


def _verdict(result: Result) -> object:
    """Return the verdict of a result, or the kind of its failure."""
    return result.adherent if isinstance(result, Evaluation) else type(result)


def _is_fused(bundle: Bundle, graph: GraphInfo) -> bool:
    """Return whether a graph has the ``Attention`` operator, and a portable one can replace it."""
    return graph.opset >= ATTENTION_OPSET and bundle.has(GRAPH_NAME)


def _source_in(bundle: Bundle, graph: GraphInfo) -> _Source:
    return _Source(graph, bundle.path(graph.file), bundle.manifest.files[graph.file].sha256)


def _portable(bundle: Bundle, fused: GraphInfo, scratch: Path) -> _Source:
    """Return the portable graph in the precision of a fused one.

    One that the bundle lacks is written from ``model.onnx`` to ``scratch``.
    """
    for graph in find_graphs(bundle, fused.precision):
        if not _is_fused(bundle, graph):
            return _source_in(bundle, graph)
    assert fused.precision in ("bf16", "fp16")
    name = fused.file.replace(".onnx", ".portable.onnx")
    source = next(graph for graph in bundle.info.graphs if graph.file == GRAPH_NAME)
    graph = source.model_copy(
        update={"file": name, "precision": fused.precision, "difference": None}
    )
    test = read_self_test(bundle.path(SELF_TEST_NAME))
    answers = test.expected[fused.file]
    test = test.model_copy(update={"expected": {**test.expected, name: answers}})
    path = scratch / name
    written = save_graph(mixed(onnx.load(bundle.path(GRAPH_NAME)), fused.precision), path)
    files: dict[str, bytes | Path] = {file.name: file for file in written}
    files[SELF_TEST_NAME] = test.to_json().encode()
    return _Source(graph, path, hashlib.sha256(path.read_bytes()).hexdigest(), files)


def _without_padding(windows: Windows, vocab: int, seed: int) -> Windows:
    """Fill every position of every window with a token."""
    shape = windows.input_ids.shape
    random = np.random.default_rng(seed)
    return windows._replace(
        input_ids=random.integers(0, vocab, size=shape), attention_mask=np.ones(shape, np.int64)
    )


def describe(built: EngineInfo) -> str:
    """Return an engine's figures as text."""
    return (
        f"engine of {built.graph} for {built.target.gpu}, built in {built.build_seconds:.0f} s: "
        f"AUROC {-(built.auroc_loss or 0):+.4f}, RMSE {built.rmse_loss or 0:+.4f}, "
        f"{built.flipped} of {built.rows} verdicts changed, largest difference "
        f"{built.difference:.2g}"
    )


@contextlib.contextmanager
def show_steps() -> Iterator[Progress]:
    """Show a bar with the time left for each step on stderr; yield the function that moves them."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    with Bars(*columns, console=console, disable=not console.is_terminal) as bars:
        tasks: dict[str, Any] = {}

        def move(step: str, done: int, total: int) -> None:
            if step not in tasks:
                tasks[step] = bars.add_task(step, total=total)
            bars.update(tasks[step], completed=done, total=total)

        yield move
