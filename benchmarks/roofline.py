"""Operations, bytes and the share of what a machine can do: this one measured, an L4 on paper.

python -m benchmarks.roofline [--bundle DIR] [--lengths 128 256 384 512]

Operations and bytes are arithmetic (``shapes``); peaks and engines are measured in this run. The
floor of an engine is the time its dense products and its attention take at the peaks of their
precisions, or the time its bytes take, whichever is longer. The last table is arithmetic alone.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Mapping, Sequence

from benchmarks.engines import ENGINES, about_weights, bundle_shape, vocabulary_of
from benchmarks.peaks import COPY, measure_peaks
from benchmarks.report import Table, milliseconds, parser, publish, skipped, spread
from benchmarks.shapes import DEBERTA_V3_LARGE, FRAME, Shape, request_gflop, windows_of
from benchmarks.sweep import build
from benchmarks.timing import Contender, race
from trivet.bundle.bundle import read_bundle

# NVIDIA's data sheet: dense fp16 and bf16, and memory. A card of 72 W does not hold the first.
L4_TFLOPS, L4_GB = 121.0, 300.0
LUNA_SECONDS = {16384: 0.92, 4096: 0.23}
_BYTES = {"int8": 1, "fp32": 4, "bf16": 2}


def floors(
    shape: Shape,
    length: int,
    count: int,
    precision: tuple[str, str],
    peaks: Mapping[str, float],
) -> tuple[float, float]:
    """Return the least seconds of a window, by operations and by bytes.

    Args:
        shape: The encoder.
        length: Positions of a window.
        count: Windows a call; the weights are read once for all.
        precision: Of the dense products; of attention and of what is stored.
        peaks: 10^9 operations a second by precision, and GB a second of copying.
    """
    dense, attention, positions = shape.gflop(length)
    of_dense, rest = precision
    computed = dense / peaks[of_dense] + (attention + positions) / peaks[rest]
    weights = shape.weights_mb(_BYTES[of_dense]) / count
    moved = shape.moved_mb(length, _BYTES[rest])
    return computed, (weights + moved) / 1e3 / peaks[COPY]


def l4_rows() -> list[tuple[object, ...]]:
    """Return what DeBERTa-v3-large needs of an L4 at its nominal rate: arithmetic."""
    rows: list[tuple[object, ...]] = []
    for context, luna in LUNA_SECONDS.items():
        for other in (100, 300):
            for length in (256, 512, 1024):
                try:
                    count = windows_of(context, other, length)
                except ValueError:
                    continue  # question and response alone fill such a window
                work = request_gflop(DEBERTA_V3_LARGE, context, other, length)
                floor = work / L4_TFLOPS  # 10^9 operations at 10^12 a second: milliseconds
                each = math.ceil(context / count) + other + FRAME
                moved = count * DEBERTA_V3_LARGE.moved_mb(each, 2) / L4_GB  # MB at GB/s
                share = f"{100 * floor / 1000 / luna:.0f} %" if length == 512 else ""
                row = (context, other, length, count, f"{work / 1000:.1f}", f"{floor:.0f}")
                rows.append((*row, f"{moved:.0f}", share))
    return rows


def l4_table() -> Table:
    """Return ``l4_rows`` as a table that says what it is."""
    title = (
        f"Arithmetic, not measured: {DEBERTA_V3_LARGE.name} on an L4 at its nominal "
        f"{L4_TFLOPS:g} TFLOP/s and {L4_GB:g} GB/s, 16-bit:"
    )
    header = (
        "context tokens",
        "question + response",
        "positions",
        "windows",
        "TFLOP",
        "floor by operations, ms",
        "by bytes, unfused, ms",
        "floor / Luna's seconds",
    )
    return Table(title, header, l4_rows())


def precision_of(engine: str) -> tuple[str, str]:
    """Return what an engine computes its dense products in, and all the rest.

    OpenVINO's is that of its usual choice: int8, and bf16 around it.
    """
    if engine.endswith("bf16"):
        return "bf16", "bf16"
    return {"int8": ("int8", "fp32"), "openvino": ("int8", "bf16")}.get(engine, ("fp32", "fp32"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure peaks and engines; print them beside the arithmetic."""
    flags = parser(__doc__, repeats=7)
    flags.add_argument("--lengths", type=int, nargs="+", default=[128, 256, 384, 512])
    flags.add_argument("--windows", type=int, default=2, help="in a call")
    flags.add_argument("--backends", nargs="+", choices=ENGINES, default=["int8", "fp32", "torch"])
    given = flags.parse_args(arguments)
    shape = bundle_shape(read_bundle(given.bundle))
    precisions = sorted({part for engine in given.backends for part in precision_of(engine)})
    rates = measure_peaks(given.threads, given.repeats, precisions)
    peaks = {name: statistics.median(values) for name, values in rates.items()}
    vocabulary = vocabulary_of(given.bundle)
    contenders = [
        Contender(engine, build, (given.bundle, engine, given.threads, vocabulary))
        for engine in given.backends
    ]
    cases = [(length, given.windows) for length in given.lengths]
    outcome = race(contenders, given.repeats, cases)
    rows = []
    for (engine, case), measured in outcome.measured.items():
        assert isinstance(case, tuple)
        length, count = case
        computed, moved = floors(shape, length, count, precision_of(engine), peaks)
        seconds = [value / count for value in measured.seconds()]
        rate = sum(shape.gflop(length)) / statistics.median(seconds)
        rows.append(
            (
                engine,
                length,
                milliseconds(seconds),
                f"{rate:.0f}",
                f"{1000 * computed:.1f}",
                f"{1000 * moved:.1f}",
                f"{100 * max(computed, moved) / statistics.median(seconds):.0f} %",
            )
        )
    publish(
        "roofline",
        [
            Table(
                "Peaks measured here: products of 2048 x 1024 x 4096, and copying 512 MB:",
                ("what", "GFLOP/s or GB/s"),
                [(name, spread(values, 0)) for name, values in rates.items()],
            ),
            Table(
                f"Operations and bytes of a window, {shape.layers} layers of {shape.hidden} "
                f"(weights of int8 {shape.weights_mb(1):.1f} MB, fp32 {shape.weights_mb(4):.1f}):",
                ("positions", "GFLOP dense", "attention", "MB moved, fp32", "FLOP a byte"),
                _work_rows(shape, given.lengths),
            ),
            Table(
                f"Engines against their floors, {given.windows} windows a call:",
                (
                    "engine",
                    "positions",
                    "ms a window (least to most)",
                    "GFLOP/s",
                    "floor by operations, ms",
                    "by bytes, ms",
                    "floor / measured",
                ),
                rows,
            ),
            about_weights(given.bundle, given.backends),
            skipped(outcome),
            l4_table(),
        ],
        given,
    )
    return 0


def _work_rows(shape: Shape, lengths: Sequence[int]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for length in lengths:
        dense, attention, positions = shape.gflop(length)
        moved = shape.moved_mb(length, 4)
        intensity = 1000 * (dense + attention + positions) / moved
        rows.append(
            (length, f"{dense:.2f}", f"{attention:.2f}", f"{moved:.0f}", f"{intensity:.0f}")
        )
    return rows


if __name__ == "__main__":
    sys.exit(main())
