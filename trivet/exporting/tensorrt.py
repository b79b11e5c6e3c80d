"""Build a TensorRT engine, compare it with fp32, and keep it only if it passes.

Kernels of single GPU models are known to compute wrong results silently. So every engine is
compared on the machine that will run it: on windows with and without padding, in every profile,
and on the verdicts of labelled rows.
"""

from __future__ import annotations

import datetime
import hashlib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from trivet.backends.backend import Backend
from trivet.backends.example_windows import Sizes, make_windows
from trivet.backends.loading import load_tokenizer
from trivet.backends.onnx_runtime import OnnxRuntimeBackend
from trivet.backends.profiles import make_profiles
from trivet.backends.tensorrt import TensorRTBackend
from trivet.backends.tensorrt_build import build_engine, find_target
from trivet.backends.tensorrt_cache import EngineCache
from trivet.backends.tensorrt_loading import find_graph
from trivet.bundle.bundle import GRAPH_NAME, Bundle, add_files, read_bundle
from trivet.bundle.tensorrt_info import EngineInfo, EnginePrecision, ShapeRange
from trivet.data.windows import Windows
from trivet.evaluation.evaluator import Evaluator
from trivet.exporting.parity import compare
from trivet.records import BackendError, Evaluation, FailedEvaluation, RagExample

logger = logging.getLogger(__name__)

# Largest difference of a probability, and largest share of verdicts that may change.
TOLERANCE = {"fp32": 1e-3, "bf16": 0.01, "fp16": 0.01}
MOST_FLIPPED = 0.001
_ADVICE = {
    "bf16": "fp16 rounds eight times finer where its range is enough: try --precision fp16",
    "fp16": "bf16 has fp32's range: try --precision bf16, or fp32",
    "fp32": "TensorRT computes wrong results on this GPU; use ONNX Runtime",
}


def export_tensorrt(
    folder: Path, precision: str = "bf16", rows: Sequence[RagExample] = ()
) -> EngineInfo:
    """Build an engine from a bundle's graph, compare it, cache it, and describe it in the bundle.

    Args:
        folder: A bundle that holds ``model.onnx`` and the graph in ``precision``.
        precision: Precision of the graph, a key of ``TOLERANCE``.
        rows: Real examples whose verdicts must not change.

    Raises:
        BundleError: A graph is missing.
        BackendError: TensorRT or a GPU is missing, the engine cannot be built, or its answers
            differ too much. Nothing is kept then.
    """
    bundle = read_bundle(folder)
    if precision not in TOLERANCE:
        raise BackendError(f"no TensorRT engine in {precision}; one of {', '.join(TOLERANCE)}")
    kind = cast(EnginePrecision, precision)
    graph = find_graph(bundle, kind)
    reference = OnnxRuntimeBackend(bundle.path(GRAPH_NAME))
    target, cache = find_target(), EngineCache()
    profiles = make_profiles(bundle.info.window.size)
    built = build_engine(bundle.path(graph.file), profiles, cache)
    info = EngineInfo(
        graph=graph.file,
        graph_sha256=bundle.manifest.files[graph.file].sha256,
        precision=kind,
        target=target,
        profiles=profiles,
        engine_sha256=hashlib.sha256(built.plan).hexdigest(),
        build_seconds=round(built.seconds, 1),
        date=datetime.date.today().isoformat(),
        difference=0.0,
    )
    info = accept(bundle, info, TensorRTBackend(built.plan, info), reference, rows)
    path = cache.put(built.plan, info)
    measured = (info.difference, info.flipped)
    logger.info("%s kept: differs by %.2g from fp32, %d verdicts changed", path, *measured)
    others = tuple(each for each in bundle.info.engines if each.key != info.key)
    add_files(folder, {}, bundle.info.model_copy(update={"engines": (*others, info)}))
    return info


def accept(
    bundle: Bundle,
    info: EngineInfo,
    backend: Backend,
    reference: Backend,
    rows: Sequence[RagExample] = (),
) -> EngineInfo:
    """Compare an engine with fp32 ONNX Runtime; return ``info`` with the measured differences.

    Raises:
        BackendError: A probability differs by more than the tolerance or is not finite, or too many
            verdicts change.
    """
    cases = list(parity_cases(info.profiles, load_tokenizer(bundle).vocab_size))
    report = compare(
        lambda windows: reference.run(windows)._asdict(),
        {"engine": lambda windows: backend.run(windows)._asdict()},
        cases,
    )
    difference, most = report.worst["engine"], TOLERANCE[info.precision]
    if difference > most:
        row = max(report.rows, key=lambda each: max(each.differences["engine"].largest.values()))
        raise BackendError(
            f"the engine of {info.graph} differs from fp32 by {difference:.2g} on {row.sizes}, "
            f"which must be at most {most:g} in {info.precision}; it was not kept. "
            f"{_ADVICE[info.precision]}"
        )
    flipped = count_flipped(
        Evaluator(bundle.folder, backend=reference), Evaluator(bundle.folder, backend=backend), rows
    )
    if flipped > MOST_FLIPPED * len(rows):
        raise BackendError(
            f"the engine of {info.graph} changes {flipped} of {len(rows)} verdicts; at most "
            f"{MOST_FLIPPED:.1%} may change in {info.precision}; it was not kept. "
            f"{_ADVICE[info.precision]}"
        )
    return info.model_copy(update={"difference": difference, "rows": len(rows), "flipped": flipped})


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


def count_flipped(reference: Evaluator, evaluator: Evaluator, rows: Sequence[RagExample]) -> int:
    """Count rows whose ``adherent`` verdict, or kind of failure, differs between two evaluators."""

    def verdict(result: Evaluation | FailedEvaluation) -> object:
        return result.adherent if isinstance(result, Evaluation) else type(result)

    pairs = zip(reference.evaluate_many(rows), evaluator.evaluate_many(rows), strict=True)
    return sum(verdict(one) != verdict(other) for one, other in pairs)


def _without_padding(windows: Windows, vocab: int, seed: int) -> Windows:
    """Fill every position of every window with a token."""
    shape = windows.input_ids.shape
    random = np.random.default_rng(seed)
    return windows._replace(
        input_ids=random.integers(0, vocab, size=shape), attention_mask=np.ones(shape, np.int64)
    )
