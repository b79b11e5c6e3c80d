"""DeBERTa-v3-large's shape on a CPU: our export against the stock export and eager torch.

python -m benchmarks.deberta [--shape deberta-v3-large] [--length 512] [--windows 1]

Random weights; ``benchmarks.models`` defines "stock". All have the same heads and joining.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.inputs import full_windows
from benchmarks.report import Table, milliseconds, parser, publish, skipped, spread
from benchmarks.shapes import SHAPES, Shape
from benchmarks.timing import Contender, Run, in_a_process, race, timed
from trivet.backends.backend import Backend
from trivet.backends.onnx_runtime import OnnxRuntimeBackend

VOCABULARY = 2000  # embedding rows are only read, so a short table takes the same time
KINDS = ("library eager", "ours eager", "stock fp32", "ours fp32", "stock int8", "ours int8")
RATIOS = (
    ("stock int8", "ours int8"),
    ("library eager", "ours int8"),
    ("stock fp32", "ours fp32"),
    ("library eager", "ours eager"),
)


def write(shape: Shape, kind: str, longest: int, file: Path) -> None:
    """Write the ONNX graph of a kind."""
    from benchmarks.models import random_model, write_graph, write_stock_graph

    whose, precision = kind.split()
    model = random_model(shape, VOCABULARY, longest)
    if whose == "stock":
        write_stock_graph(model, file, precision)
    else:
        write_graph(model, longest, file, precision)


def build(shape: Shape, kind: str, file: Path, threads: int, count: int, length: int) -> Run:
    """Return a ``Run`` of one call."""
    backend: Backend
    if kind.endswith("eager"):
        from benchmarks.models import TorchBackend, random_model
        from trivet.model.inference.rag_inference import inference_model

        model = random_model(shape, VOCABULARY, length)
        module = model if kind.startswith("library") else inference_model(model, length)
        backend = TorchBackend(module, kind, threads)
    else:
        backend = OnnxRuntimeBackend(file, threads)
    windows = full_windows(count, length, VOCABULARY)
    return timed(lambda _: backend.run(windows))


def main(arguments: Sequence[str] | None = None) -> int:
    """Export the graphs, time all kinds in turns and print the ratios."""
    flags = parser(__doc__, repeats=5, bundle=False)
    flags.add_argument("--shape", choices=sorted(SHAPES), default="deberta-v3-large")
    flags.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    flags.add_argument("--length", type=int, default=512)
    flags.add_argument("--windows", type=int, default=1, help="windows of a call")
    given = flags.parse_args(arguments)
    shape = SHAPES[given.shape]
    with tempfile.TemporaryDirectory() as scratch:
        contenders = []
        for kind in given.kinds:
            file = Path(scratch) / f"{kind.replace(' ', '_')}.onnx"
            if not kind.endswith("eager"):
                in_a_process(write, shape, kind, given.length, file)
            sizes = (given.threads, given.windows, given.length)
            contenders.append(Contender(kind, build, (shape, kind, file, *sizes)))
        outcome = race(contenders, given.repeats)
    rows = [
        (
            kind,
            milliseconds([value / given.windows for value in measured.seconds()]),
            round(given.windows * shape.gflop(given.length) / measured.median()),
            round(measured.peak_mb),
        )
        for (kind, _), measured in outcome.measured.items()
    ]
    ran = {name for name, _ in outcome.measured}
    ratios = [
        (f"{slow} / {fast}", spread(outcome.ratios(slow, fast), 2))
        for slow, fast in RATIOS
        if {slow, fast} <= ran
    ]
    title = f"{shape.name} shape, random weights, {given.windows} x {given.length} positions:"
    publish(
        "deberta",
        [
            Table(title, ("what", "ms a window (least to most)", "GFLOP/s", "peak MB"), rows),
            Table("Ratios, round by round:", ("what", "median"), ratios),
            skipped(outcome),
        ],
        given,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
