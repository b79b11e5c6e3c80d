"""Choice and loading of the model of a bundle for OpenVINO."""

from __future__ import annotations

import logging
from typing import NamedTuple

from trivet.backends.graph_choice import LoadedBackend, Precision, check_self_test, choose_graph
from trivet.backends.int8_sums import quick_sums_overflow
from trivet.backends.openvino import OpenVinoBackend
from trivet.bundle.bundle import Bundle
from trivet.errors import BundleError

logger = logging.getLogger(__name__)


class OpenVinoChoice(NamedTuple):
    """Model to load; ``exported`` if ``trivet export`` measured it: the rest may run in bf16."""

    file: str
    weights: str | None
    precision: Precision
    exported: bool


def choose_for_openvino(bundle: Bundle, precision: Precision | None) -> OpenVinoChoice:
    """Return the model that export chose; without a choice, or against it, a graph of the bundle.

    On a processor without VNNI, int8 sums overflow in OpenVINO, which has no other kernels. There
    int8 runs only if its weights are so small that sums fit, or if it was measured and chosen on
    such a processor.

    Raises:
        BundleError: The bundle has no such model, or none that this processor runs correctly.
    """
    kept = bundle.info.openvino
    if (
        kept is not None
        and precision in (None, kept.precision)
        # This processor computes the same as when the model was measured.
        and (kept.precision != "int8" or not (kept.exact_sums and quick_sums_overflow()))
    ):
        return OpenVinoChoice(kept.file, kept.weights, kept.precision, exported=True)
    if precision not in ("int8", "fp32", None):
        raise BundleError(
            f"{bundle.folder}: no {precision} for OpenVINO; use int8 or fp32, or run `trivet "
            f"export openvino {bundle.as_argument} --data DATA`"
        )
    graph = choose_graph(bundle, precision)
    if graph.precision == "int8" and not graph.sums_fit and quick_sums_overflow():
        if precision is not None or all(one.precision != "fp32" for one in bundle.info.graphs):
            raise BundleError(
                f"{bundle.path(graph.file)}: int8 sums overflow in OpenVINO on this processor, "
                "which has no VNNI; take --backend onnx, whose int8 is exact here, or --precision "
                "fp32 of a bundle that has it"
            )
        graph = choose_graph(bundle, "fp32")
    return OpenVinoChoice(graph.file, None, graph.precision, exported=False)


def load_for_openvino(
    bundle: Bundle,
    threads: int | None = None,
    precision: Precision | None = None,
    workers: int = 1,
) -> LoadedBackend:
    """Load a bundle into OpenVINO, and run the self-test on it.

    The arguments are those of ``load_backend``.

    Raises:
        BundleError: The bundle has no such model, or it fails the self-test.
        BackendError: OpenVINO is not installed.
    """
    choice = choose_for_openvino(bundle, precision)
    if precision is None and choice.precision == "fp32":
        logger.warning("%s: OpenVINO runs it in fp32", bundle.folder)
    if choice.precision == "int8" and quick_sums_overflow():
        logger.warning(
            "%s: OpenVINO's int8 is slow on this processor, which has no VNNI; --backend onnx is "
            "faster",
            bundle.folder,
        )
    kept = bundle.info.openvino if choice.exported else None
    # Measured on labelled rows, int8 matmuls with the rest in bf16 lose no more than an export may
    # (docs/export.md); a bundle whose self-test fails so runs the rest in fp32.
    bf16 = choice.exported or choice.precision == "int8"
    while True:
        backend = OpenVinoBackend(
            bundle.path(choice.file),
            bundle.path(choice.weights) if choice.weights else None,
            window=bundle.info.window.size,
            bf16=bf16,
            threads=threads,
            workers=workers,
        )
        try:
            check_self_test(backend, bundle, kept.answers(backend.bf16) if kept else choice.file)
        except BundleError:
            if kept is not None or not backend.bf16:
                raise
            bf16 = False
            continue
        return LoadedBackend(backend, choice.precision)
