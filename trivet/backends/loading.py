"""From a bundle's folder to an engine that has shown that it computes what it should."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal

from trivet.backends.backend import cores
from trivet.backends.graph_choice import LoadedBackend, Precision, check_self_test, choose_graph
from trivet.backends.onnx_runtime import OnnxRuntimeBackend
from trivet.bundle.bundle import TOKENIZER_NAME, Bundle
from trivet.data.segment_tokenizer import SegmentTokenizer
from trivet.records import BundleError

logger = logging.getLogger(__name__)

BackendName = Literal["onnx", "openvino", "tensorrt"]

EMBEDDED_BUNDLE = Path(__file__).parent.parent / "bundles" / "embedded"


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
    backend: BackendName = "onnx",
    workers: int | None = None,
) -> LoadedBackend:
    """Load a bundle's graph, or the engine built of it, and run the stored self-test on it.

    Args:
        bundle: A bundle whose files were checked.
        threads: Threads of the engine; ``None`` takes one for each core.
        precision: Which graph; ``None`` takes int8 where there is one, for it is the fastest, and
            bf16 of TensorRT; of OpenVINO what ``trivet export`` chose, or the int8 graph.
        backend: ``onnx`` is ONNX Runtime on the CPU, ``openvino`` the faster OpenVINO; ``tensorrt``
            was built by ``trivet export``.
        workers: Calls that a CPU runs at once, each on its share of the threads; ``None`` runs each
            on one thread. Who makes one call at a time wants 1.

    Raises:
        BundleError: There is no such graph, it lacks a head, it is refused, or it does not answer
            the self-test as it did at export.
        BackendError: OpenVINO is not installed, or no TensorRT engine was built here.
    """
    missing = sorted({"support", "relevance", "utilization"} - set(bundle.info.heads))
    if missing:
        raise BundleError(
            f"{bundle.folder}: bundle.json names no {', '.join(missing)} head; a verdict needs all "
            "three"
        )
    if backend == "tensorrt":
        from trivet.backends.tensorrt_loading import load_engine

        if precision == "int8":
            raise BundleError(
                f"{bundle.folder}: no TensorRT engine in int8; use bf16, fp16, fp32 or int8-qdq"
            )
        return LoadedBackend(load_engine(bundle, precision or "bf16"), precision or "bf16")
    workers = workers or threads or cores()
    if backend == "openvino":
        from trivet.backends.openvino_loading import load_for_openvino

        return load_for_openvino(bundle, threads, precision, workers)
    graph = choose_graph(bundle, precision)
    loaded = OnnxRuntimeBackend(bundle.path(graph.file), threads, workers, sums_fit=graph.sums_fit)
    check_self_test(loaded, bundle, graph.file)
    return LoadedBackend(loaded, graph.precision)
