"""From a bundle's folder to an engine that has shown that it computes what it should."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal

from trivet.data.tokens import SegmentTokenizer
from trivet.data.windows import Windows
from trivet.model.bundle import SELF_TEST_NAME, TOKENIZER_NAME, Bundle
from trivet.model.bundle_info import GraphInfo
from trivet.model.self_test import read_self_test
from trivet.records import BundleError, EngineError
from trivet.serve.backend import Backend, WideBackend
from trivet.serve.lanes import cores
from trivet.serve.onnx_runtime import OnnxRuntimeBackend

logger = logging.getLogger(__name__)

Precision = Literal["fp32", "int8", "bf16", "fp16", "int8-qdq", "fp8-qdq"]
EngineName = Literal["onnx", "openvino", "tensorrt"]

DEFAULT_BUNDLE = Path(__file__).parent.parent / "bundles" / "default"


def load_tokenizer(bundle: Bundle) -> SegmentTokenizer:
    """Load a bundle's tokenizer.

    Raises:
        BundleError: It is no tokenizer, or frames windows with other ids than the model knows.
    """
    tokenizer = SegmentTokenizer.from_file(bundle.path(TOKENIZER_NAME))
    said, found = bundle.info.special_tokens, tokenizer.special
    if (said.cls, said.sep, said.pad) != (found.cls, found.sep, found.pad):
        raise BundleError(
            f"{TOKENIZER_NAME}: its special tokens are cls {found.cls}, sep {found.sep}, pad "
            f"{found.pad}, but bundle.json says cls {said.cls}, sep {said.sep}, pad {said.pad}; "
            "the tokenizer belongs to another model"
        )
    return tokenizer


def load_backend(
    bundle: Bundle,
    threads: int | None = None,
    precision: Precision | None = None,
    engine: EngineName = "onnx",
    lanes: int | None = None,
) -> Backend:
    """Load a bundle's graph, or the engine built of it, and run the stored self-test on it.

    Args:
        bundle: A bundle whose files were checked.
        threads: Threads of the engine; ``None`` takes one for each core.
        precision: Which graph; ``None`` takes int8 where there is one, for it is the fastest, and
            bf16 of TensorRT; of OpenVINO what ``trivet export`` chose, or the int8 graph.
        engine: ``onnx`` is ONNX Runtime on the CPU, ``openvino`` the faster OpenVINO; ``tensorrt``
            was built by ``trivet export``.
        lanes: Calls that a CPU runs at once, each on its share of the threads; ``None`` runs each
            on one thread. Who makes one call at a time wants 1.

    Raises:
        BundleError: There is no such graph, it lacks a head, it is refused, or it does not answer
            the self-test as it did at export.
        EngineError: OpenVINO is not installed, or no TensorRT engine was built here.
    """
    missing = sorted({"support", "relevance", "utilization"} - set(bundle.info.heads))
    if missing:
        raise BundleError(
            f"{bundle.folder}: bundle.json names no {', '.join(missing)} head; a verdict needs all "
            "three"
        )
    if engine == "tensorrt":
        from trivet.serve.engine_loading import load_engine

        if precision == "int8":
            raise BundleError(
                f"{bundle.folder}: no TensorRT engine in int8; use bf16, fp16, fp32 or int8-qdq"
            )
        return load_engine(bundle, precision or "bf16")
    lanes = lanes or threads or cores()
    if engine == "openvino":
        from trivet.serve.openvino_loading import load_for_openvino

        return load_for_openvino(bundle, threads, precision, lanes)
    graph = choose_graph(bundle, precision)
    backend = OnnxRuntimeBackend(bundle.path(graph.file), threads, lanes, sums_fit=graph.sums_fit)
    check_self_test(backend, bundle, graph.file)
    return backend


def answering_precision(
    bundle: Bundle, precision: Precision | None, engine: EngineName
) -> Precision:
    """Return the precision in which ``load_backend`` makes a bundle answer.

    Raises:
        BundleError: The bundle has no such graph.
    """
    if engine == "tensorrt":
        return precision or "bf16"
    if engine == "openvino":
        from trivet.serve.openvino_loading import choose_for_openvino

        return choose_for_openvino(bundle, precision).precision
    return choose_graph(bundle, precision).precision


def check_self_test(backend: Backend, bundle: Bundle, file: str) -> None:
    """Let an engine answer the bundle's stored self-test before it answers anyone.

    Raises:
        BundleError: It does not run, or answers otherwise; the message names the graph's ``file``.
    """
    test = read_self_test(bundle.path(SELF_TEST_NAME))
    windows = Windows(**test.arrays())
    try:
        answers = [backend.run(windows)]
        if isinstance(backend, WideBackend) and backend.lanes > 1:
            answers.append(backend.run_wide(windows))
    except EngineError as error:
        raise BundleError(f"{file}: the self-test does not run: {error}") from error
    worst = max(test.check(file, answer._asdict()) for answer in answers)
    logger.info("%s loaded from %s, self-test within %.2g", backend.name, bundle.folder, worst)


def choose_graph(bundle: Bundle, precision: Precision | None) -> GraphInfo:
    """Return the graph of the precision asked for, or the fastest, for ONNX Runtime.

    Raises:
        BundleError: The bundle has no such graph, or ONNX Runtime has no such products.
    """
    if precision not in ("int8", "fp32", None):
        raise BundleError(
            f"{bundle.folder}: {precision} is for graphics cards; use --engine tensorrt, or int8 "
            "or fp32 with --engine onnx"
        )
    by_precision = {graph.precision: graph for graph in reversed(bundle.info.graphs)}
    wanted: tuple[Precision, ...] = (precision,) if precision else ("int8", "fp32")
    for each in wanted:
        if each in by_precision:
            return by_precision[each]
    has = ", ".join(sorted(by_precision)) or "none"
    raise BundleError(
        f"{bundle.folder}: no {' or '.join(wanted)} graph (it has {has}); run `trivet export` on it"
    )
