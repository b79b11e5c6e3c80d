"""Choice of a bundle's graph, and the self-test of a loaded backend."""

from __future__ import annotations

import logging
from typing import Literal, NamedTuple

from trivet.backends.backend import AllThreadsBackend, Backend
from trivet.bundle.bundle import SELF_TEST_NAME, Bundle
from trivet.bundle.schema import GraphInfo
from trivet.bundle.self_test import read_self_test
from trivet.data.windows import Windows
from trivet.errors import BackendError, BundleError

logger = logging.getLogger(__name__)

Precision = Literal["fp32", "int8", "bf16", "fp16"]


class LoadedBackend(NamedTuple):
    """A backend that passed the self-test."""

    backend: Backend
    precision: Precision


def check_self_test(
    backend: Backend,
    bundle: Bundle,
    file: str,
    precision: Precision | None = None,
    instead: str | None = None,
) -> None:
    """Run the stored self-test of a bundle on a backend.

    Args:
        backend: The backend.
        bundle: The bundle.
        file: File whose recorded answers are compared.
        precision: Precision of the backend; ``None`` means that of the file.
        instead: File to compare with if there are no answers of ``file``, as in older bundles.

    Raises:
        BundleError: It does not run, or the answers differ; the message names the graph's ``file``.
    """
    test = read_self_test(bundle.path(SELF_TEST_NAME))
    if instead is not None and file not in test.expected:
        file = instead
    windows = Windows(**test.arrays())
    try:
        answers = [backend.run(windows)]
        if isinstance(backend, AllThreadsBackend) and backend.workers > 1:
            answers.append(backend.run_all_threads(windows))
    except BackendError as error:
        raise BundleError(f"{file}: the self-test does not run: {error}") from error
    worst = max(test.check(file, answer.present(), precision) for answer in answers)
    logger.info("%s loaded from %s, self-test within %.2g", backend.name, bundle.folder, worst)


def choose_graph(bundle: Bundle, precision: Precision | None) -> GraphInfo:
    """Return the graph of a precision, or the fastest one, for ONNX Runtime.

    Raises:
        BundleError: The bundle has no such graph, or ONNX Runtime cannot run the precision.
    """
    if precision not in ("int8", "fp32", None):
        raise BundleError(
            f"{bundle.folder}: {precision} is for GPUs; use --backend torch or tensorrt, or int8 "
            "or fp32 on the CPU"
        )
    return _first_graph(bundle, (precision,) if precision else ("int8", "fp32"))


def choose_gpu_graph(bundle: Bundle, precision: Precision | None) -> GraphInfo:
    """Return the graph of a precision, or the fastest one, for ONNX Runtime on a GPU.

    Raises:
        BundleError: The bundle has no such graph, or GPUs do not run it.
    """
    if precision == "int8":
        raise BundleError(f"{bundle.folder}: int8 is for CPUs; use --device cpu, or fp16 or fp32")
    return _first_graph(bundle, (precision,) if precision else ("fp16", "fp32"))


def _first_graph(bundle: Bundle, wanted: tuple[Precision, ...]) -> GraphInfo:
    by_precision = {graph.precision: graph for graph in reversed(bundle.info.graphs)}
    for each in wanted:
        if each in by_precision:
            return by_precision[each]
    has = ", ".join(sorted(by_precision)) or "none"
    # With --out, and for GPUs, the graph is written only if it is named.
    named = bundle.read_only or wanted[0] in ("bf16", "fp16")
    option = f" --precision {wanted[0]}" * named
    then = " and give --bundle DIR" * bundle.read_only
    raise BundleError(
        f"{bundle.folder}: no {' or '.join(wanted)} graph (it has {has}); run "
        f"`trivet export onnx {bundle.as_argument}{option}`{then}"
    )
