"""Luna's Table 5 walked on this code: seconds for 16k context tokens, one step after another.

python -m benchmarks.table5 [--shape deberta-v3-large] [--lengths 1024 512] [--context 16384]

Luna (arXiv 2406.00975, Table 5, an L4): 3.27 s, TensorRT 2.09, efficient pre- and post-processing
1.79, windows of 512 0.98, one pipeline on the server 0.92. Here on this machine's processor, with
random weights, from text to verdict; every step keeps those before it. The last one judges a stream
of three requests and reads the next one while the engine runs; its figure is a third of the stream.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.engines import vocabulary_of
from benchmarks.inputs import OTHER_TOKENS, build_example
from benchmarks.naive import join_in_loops, read_window_by_window
from benchmarks.pipeline import Pipeline
from benchmarks.report import Table, parser, publish, skipped, spread
from benchmarks.shapes import SHAPES, Shape
from benchmarks.timing import Contender, Run, apart, race
from trivet.backends.backend import Backend
from trivet.backends.onnx_runtime import OnnxRuntimeBackend
from trivet.bundle.bundle import read_bundle
from trivet.data.tokenization import TokenizedExample
from trivet.data.windows import Layout, WindowSettings
from trivet.records import RagExample

STREAM = 3
_WARM_UP = 64  # context tokens: one window


class Step(NamedTuple):
    """One row of the table.

    Attributes:
        name: What is new.
        precision: Of the exported graph; ``None`` runs the library's module in torch.
        naive: Whether every window is tokenized anew and joined in loops.
        length: Which of the two window lengths, 0 or 1.
        overlap: Whether the next request is read while the engine runs.
    """

    name: str
    precision: str | None
    naive: bool
    length: int
    overlap: bool = False


STEPS = (
    Step("the library's module in torch, eager, fp32", None, True, 0),
    Step("our module, exported, ONNX Runtime, fp32", "fp32", True, 0),
    Step("int8", "int8", True, 0),
    Step("each text tokenized once, joined in the graph", "int8", False, 0),
    Step("windows of {length} positions", "int8", False, 1),
    Step("the next request read while the engine runs", "int8", False, 1, True),
)


def write(shape: Shape, vocabulary: int, longest: int, precision: str, file: Path) -> None:
    """Write the graph that some steps run."""
    from benchmarks.models import random_model, write_graph

    write_graph(random_model(shape, vocabulary, longest), longest, file, precision)


def build(
    step: Step, shape: Shape, folder: Path, file: Path, lengths: Sequence[int], threads: int
) -> Run:
    """Return what runs one step on as many context tokens as its case says."""
    bundle = read_bundle(folder)
    backend: Backend
    if step.precision is None:
        from benchmarks.models import TorchBackend, random_model

        model = random_model(shape, vocabulary_of(folder), max(lengths))
        backend = TorchBackend(model, step.name, threads)
    else:
        backend = OnnxRuntimeBackend(file, threads)
    pipeline = Pipeline(bundle, backend, WindowSettings(lengths[step.length]))

    def run(context_tokens: int) -> Mapping[str, float]:
        example = build_example(pipeline.tokenizer, context_tokens, OTHER_TOKENS)
        if step.overlap:
            return {"total": _stream(pipeline, [example] * STREAM) / STREAM}
        return {"total": _naively(pipeline, example) if step.naive else _once(pipeline, example)}

    return run


def _once(pipeline: Pipeline, example: RagExample) -> float:
    return pipeline.time(example)["total"]


def _naively(pipeline: Pipeline, example: RagExample) -> float:
    """Judge with the host's work in its naive form; what only finds the slices is not counted."""
    read = pipeline.read(example)
    layout = pipeline.lay_out(read)
    width = max(len(row) for row in layout.rows)
    probs = np.full((3, len(layout.rows), width), 0.5, dtype=np.float32)
    started = time.perf_counter()
    read_window_by_window(example, read, layout, pipeline.tokenizer)
    pipeline.judge(example, read, layout)
    join_in_loops(layout, probs)
    return time.perf_counter() - started


def _stream(pipeline: Pipeline, examples: Sequence[RagExample]) -> float:
    """Judge a stream, each read in a second thread while the one before is judged."""

    def prepare(example: RagExample) -> tuple[RagExample, TokenizedExample, Layout]:
        read = pipeline.read(example)
        return example, read, pipeline.lay_out(read)

    started = time.perf_counter()
    with ThreadPoolExecutor(1) as reader:
        for ready in reader.map(prepare, examples):
            pipeline.judge(*ready)
    return time.perf_counter() - started


def main(arguments: Sequence[str] | None = None) -> int:
    """Export what the steps need, time them in turns, print the walk."""
    flags = parser(__doc__, repeats=3)
    flags.add_argument("--shape", choices=sorted(SHAPES), default="deberta-v3-large")
    flags.add_argument("--lengths", type=int, nargs=2, default=[1024, 512])
    flags.add_argument("--context", type=int, default=16384)
    given = flags.parse_args(arguments)
    shape = SHAPES[given.shape]
    with tempfile.TemporaryDirectory() as scratch:
        files = {precision: Path(scratch) / f"{precision}.onnx" for precision in ("fp32", "int8")}
        for precision, file in files.items():
            apart(write, shape, vocabulary_of(given.bundle), max(given.lengths), precision, file)
        contenders = [
            Contender(
                step.name.format(length=given.lengths[step.length]),
                build,
                (
                    step,
                    shape,
                    given.bundle,
                    files[step.precision or "fp32"],
                    given.lengths,
                    given.threads,
                ),
            )
            for step in STEPS
        ]
        outcome = race(contenders, given.repeats, [given.context], warm_up=[_WARM_UP])
    rows = []
    medians: list[float] = []
    for (name, _), measured in outcome.measured.items():
        medians.append(measured.median())
        before = f"{medians[-2] / medians[-1]:.2f}" if len(medians) > 1 else ""
        total = f"{medians[0] / medians[-1]:.2f}"
        rows.append((name, spread(measured.seconds(), 2), before, total))
    title = (
        f"{shape.name} shape, random weights, {given.context} context tokens, {OTHER_TOKENS} of "
        f"question and response, first windows of {given.lengths[0]}:"
    )
    header = ("step", "seconds (least to most)", "against the step before", "against the first")
    publish("table5", [Table(title, header, rows), skipped(outcome)], given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
