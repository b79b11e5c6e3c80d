"""``trivet export --backend tensorrt``: build, compare with fp32, and only then keep an engine.

Everything happens on the machine that will run it. Silent faults of fused kernels are known on
single cards, so no engine is kept that was not compared on this one: on windows with and without
padding, of every profile, and on labelled rows where they are given. In eight bits the rows decide:
by what their AUROC and RMSE lose, and not by single verdicts.
"""

from __future__ import annotations

import datetime
import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from trivet.backends.backend import Backend
from trivet.backends.example_windows import Sizes, make_windows
from trivet.backends.loading import load_tokenizer
from trivet.backends.onnx_runtime import OnnxRuntimeBackend
from trivet.backends.profiles import MOST_WINDOWS, make_profiles
from trivet.backends.tensorrt import TensorRTBackend
from trivet.backends.tensorrt_build import build_engine, find_target
from trivet.backends.tensorrt_cache import EngineCache
from trivet.backends.tensorrt_loading import find_graph
from trivet.bundle.bundle import GRAPH_NAME, Bundle, add_files, read_bundle
from trivet.bundle.tensorrt_info import EngineInfo, EnginePrecision, EngineTarget, ShapeRange
from trivet.data.windows import Windows
from trivet.evaluation.evaluator import Evaluator
from trivet.exporting.openvino_candidates import judge
from trivet.exporting.parity import compare
from trivet.exporting.quantized_rows import check_losses, count_changed, measure_losses
from trivet.records import BackendError, LabelledExample, RagExample

logger = logging.getLogger(__name__)

# Largest difference of a probability, and largest share of verdicts that may flip.
TOLERANCE = {"fp32": 1e-3, "bf16": 0.01, "fp16": 0.01, "int8-qdq": 0.5, "fp8-qdq": 0.5}
MOST_FLIPPED = 0.001
QUANTIZED = frozenset({"int8-qdq", "fp8-qdq"})
_FIRST_FP8 = (8, 9)
_ADVICE = {
    "bf16": "fp16 rounds eight times finer where its range is enough: try --precision fp16",
    "fp16": "bf16 has fp32's range: try --precision bf16, or fp32",
    "fp32": "TensorRT computes something else on this card; use ONNX Runtime",
    "int8-qdq": "stay with 16 bits on this card",
    "fp8-qdq": "stay with 16 bits on this card, or try --quantize int8",
}


def export_tensorrt(
    folder: Path,
    precision: str = "bf16",
    rows: Sequence[RagExample] = (),
    *,
    labelled: Sequence[LabelledExample] = (),
    most_windows: int = MOST_WINDOWS,
    cache: EngineCache | None = None,
) -> EngineInfo:
    """Build an engine from a bundle's graph, compare it, keep it, and note it in the bundle.

    Args:
        folder: A bundle that holds ``model.onnx`` and the graph in ``precision``.
        precision: Which graph, a key of ``TOLERANCE``; ``trivet export`` writes it.
        rows: Real examples whose verdicts must not change.
        labelled: In eight bits, instead of ``rows``: what AUROC and RMSE are measured on.
        most_windows: The most windows of one engine call.
        cache: Where engines are kept.

    Returns:
        What the engine is; also in ``bundle.json``.

    Raises:
        BundleError: A graph is missing.
        BackendError: TensorRT or a card is missing, the engine cannot be built, or its answers are
            too far off. Nothing is kept then.
        DataError: In eight bits: no AUROC or no RMSE can be measured on these rows.
    """
    bundle = read_bundle(folder)
    if precision not in TOLERANCE:
        raise BackendError(f"no TensorRT engine in {precision}; one of {', '.join(TOLERANCE)}")
    kind = cast(EnginePrecision, precision)
    graph = find_graph(bundle, kind)
    reference = OnnxRuntimeBackend(bundle.path(GRAPH_NAME))
    target, cache = find_target(), cache or EngineCache()
    _check_card(kind, target)
    if kind in QUANTIZED and not labelled:
        raise BackendError(
            f"an engine in {kind} is kept by what it loses on labelled rows; give some (--data)"
        )
    profiles = make_profiles(bundle.info.window.size, most_windows=most_windows)
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
    backend = TensorRTBackend(built.plan, info)
    info = accept(bundle, info, backend, reference, rows, labelled)
    path = cache.put(built.plan, info)
    logger.info("%s kept: %.2g from fp32, %d verdicts flipped", path, info.difference, info.flipped)
    others = tuple(each for each in bundle.info.engines if each.key != info.key)
    changed = {"engines": (*others, info)}
    add_files(folder, {}, bundle.info.model_copy(update=changed))
    return info


def accept(
    bundle: Bundle,
    info: EngineInfo,
    backend: Backend,
    reference: Backend,
    rows: Sequence[RagExample] = (),
    labelled: Sequence[LabelledExample] = (),
) -> EngineInfo:
    """Compare an engine with fp32 ONNX Runtime; return ``info`` with what was found.

    Raises:
        BackendError: A probability differs by more than the tolerance, is not finite, more verdicts
            flip than may, or eight bits lose too much.
    """
    vocab = load_tokenizer(bundle).vocab_size
    cases = list(parity_cases(info.profiles, vocab))
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
    if info.precision in QUANTIZED:
        expected, found = (judge(bundle, engine, labelled) for engine in (reference, backend))
        lost = measure_losses(labelled, expected, found, "the labelled rows")
        check_losses(lost, f"the engine of {info.graph}")
        return info.model_copy(
            update={
                "difference": difference,
                "rows": lost.rows,
                "flipped": lost.flipped,
                "auroc_loss": lost.auroc,
                "rmse_loss": lost.rmse,
            }
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

    The padded ones come twice, with other ids: a small call is recorded first and then replayed.
    The full ones are as many as the profile takes.
    """
    for seed, profile in enumerate(profiles):
        length, n, many = profile.most["L"], profile.least["N"], profile.most["N"]
        shorter = Sizes(N=n, L=length - 1, B=1, R=min(31, length), K=n, C=2 * length, S=3)
        yield shorter, make_windows(shorter, vocab, seed)
        yield shorter, make_windows(shorter, vocab, len(profiles) + seed)
        full = Sizes(N=many, L=length, B=many, R=length // 3, K=2, C=length, S=1)
        yield full, _without_padding(make_windows(full, vocab, seed), vocab, seed)


def count_flipped(reference: Evaluator, evaluator: Evaluator, rows: Iterable[RagExample]) -> int:
    """Count rows that one of the two calls adherent and the other does not, or cannot judge."""
    rows = list(rows)
    both = (list(each.evaluate_many(rows)) for each in (reference, evaluator))
    return count_changed(*both)


def _check_card(precision: EnginePrecision, target: EngineTarget) -> None:
    """Refuse what a card has no products for, before minutes go by.

    Raises:
        BackendError: fp8 on a card older than Ada.
    """
    capability = tuple(int(part) for part in target.compute_capability.split("."))
    if precision == "fp8-qdq" and capability < _FIRST_FP8:
        raise BackendError(
            f"{target.gpu} has compute capability {target.compute_capability} and no fp8 products, "
            "which begin with 8.9; take --quantize int8"
        )


def _without_padding(windows: Windows, vocab: int, seed: int) -> Windows:
    """Fill every position of every window."""
    shape = windows.input_ids.shape
    random = np.random.default_rng(seed)
    return windows._replace(
        input_ids=random.integers(0, vocab, size=shape), attention_mask=np.ones(shape, np.int64)
    )
