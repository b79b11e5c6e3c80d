"""Choice of a bundle's graph, and the self-test of a loaded backend."""

from __future__ import annotations

import logging
from typing import Literal, NamedTuple

from trivet.backends.backend import AllThreadsBackend, Backend
from trivet.bundle.bundle import SELF_TEST_NAME, Bundle
from trivet.bundle.schema import GraphInfo
from trivet.bundle.self_test import read_self_test
from trivet.data.windows import Windows
from trivet.records import BackendError, BundleError

logger = logging.getLogger(__name__)

Precision = Literal["fp32", "int8", "bf16", "fp16"]


class LoadedBackend(NamedTuple):
    """A backend that passed the self-test."""

    backend: Backend
    precision: Precision


def check_self_test(backend: Backend, bundle: Bundle, file: str) -> None:
    """Run the stored self-test of a bundle on a backend.

    Raises:
        BundleError: It does not run, or the answers differ; the message names the graph's ``file``.
    """
    test = read_self_test(bundle.path(SELF_TEST_NAME))
    windows = Windows(**test.arrays())
    try:
        answers = [backend.run(windows)]
        if isinstance(backend, AllThreadsBackend) and backend.workers > 1:
            answers.append(backend.run_all_threads(windows))
    except BackendError as error:
        raise BundleError(f"{file}: the self-test does not run: {error}") from error
    worst = max(test.check(file, answer._asdict()) for answer in answers)
    logger.info("%s loaded from %s, self-test within %.2g", backend.name, bundle.folder, worst)


def choose_graph(bundle: Bundle, precision: Precision | None) -> GraphInfo:
    """Return the graph of a precision, or the fastest one, for ONNX Runtime.

    Raises:
        BundleError: The bundle has no such graph, or ONNX Runtime cannot run the precision.
    """
    if precision not in ("int8", "fp32", None):
        raise BundleError(
            f"{bundle.folder}: {precision} is for GPUs; use --backend tensorrt, or int8 "
            "or fp32 with --backend onnx"
        )
    by_precision = {graph.precision: graph for graph in reversed(bundle.info.graphs)}
    wanted: tuple[Precision, ...] = (precision,) if precision else ("int8", "fp32")
    for each in wanted:
        if each in by_precision:
            return by_precision[each]
    has = ", ".join(sorted(by_precision)) or "none"
    raise BundleError(
        f"{bundle.folder}: no {' or '.join(wanted)} graph (it has {has}); run "
        "`trivet export onnx` on it"
    )
