"""Loading of a bundle's tokenizer and backend."""

from __future__ import annotations

import logging
from typing import Literal

from trivet.backends.backend import cores
from trivet.backends.graph_choice import LoadedBackend, Precision, check_self_test, choose_graph
from trivet.backends.onnx_runtime import OnnxRuntimeBackend
from trivet.bundle.bundle import TOKENIZER_NAME, Bundle
from trivet.data.tokenization import SegmentTokenizer
from trivet.records import BundleError

logger = logging.getLogger(__name__)

BackendName = Literal["onnx", "openvino", "tensorrt"]


def load_tokenizer(bundle: Bundle) -> SegmentTokenizer:
    """Load a bundle's tokenizer.

    Raises:
        BundleError: It is no tokenizer, or its special tokens are not those of the model.
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
    """Load a graph of a bundle, or its TensorRT engine, and run the stored self-test.

    Args:
        bundle: A bundle whose files were checked.
        threads: Threads of the backend; ``None`` means one for each core.
        precision: Precision of the graph; ``None`` means int8 if there is one, bf16 for TensorRT,
            and for OpenVINO the choice of ``trivet export`` or the int8 graph.
        backend: ``onnx`` (ONNX Runtime on the CPU), ``openvino`` (faster with VNNI), or
            ``tensorrt`` (built by ``trivet export tensorrt``).
        workers: Calls that a CPU runs at once, each on its share of the threads; ``None`` runs
            each on one thread. Use 1 to make one call at a time.

    Raises:
        BundleError: The graph is missing or refused, lacks a head, or fails the self-test.
        BackendError: OpenVINO is not installed, or no TensorRT engine was built on this machine.
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
                f"{bundle.folder}: no TensorRT engine in int8; use bf16, fp16 or fp32"
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
