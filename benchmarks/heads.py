"""What heads and joining cost: all scores against the bare encoder, one score, three passes.

python -m benchmarks.heads [--bundle DIR] [--precision int8] [--windows 2] [--length 512]

Each is a part of the bundle's own graph, cut out of it: the encoder up to its last hidden state,
what one head's score needs, everything. Three passes are the three one-score graphs in a row, as
three models of one head each would run.

What heads and joining cost is less than two timings differ by. So the operators of the whole graph
are timed one by one as well, in the same calls: those that the last hidden state needs are the
encoder's, all others heads and joining.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from benchmarks.engines import vocabulary_of
from benchmarks.inputs import full_windows
from benchmarks.kernel_times import KernelTimes, profile
from benchmarks.report import Table, milliseconds, parser, publish, spread
from benchmarks.timing import Contender, Run, race, timed
from trivet.backends.graph_choice import choose_graph
from trivet.bundle.bundle import read_bundle
from trivet.records import BackendError

# What the scores of one head take: its tokens' probabilities and what is joined of them.
SCORES = {
    "support": ("support_probs", "sentence_support", "faithfulness"),
    "relevance": ("relevance_probs", "relevance"),
    "utilization": ("utilization_probs", "utilization"),
}
ENCODER, ALL, THREE = "encoder alone", "all scores", "three passes"


def cut(graph: onnx.ModelProto, outputs: Sequence[str]) -> onnx.ModelProto:
    """Return the part of a graph that ``outputs`` need; ``graph`` itself is not changed.

    Raises:
        BackendError: The graph computes no such value.
    """
    needed = values_for(graph, outputs)
    part = onnx.ModelProto()
    part.CopyFrom(graph)
    for items in (part.graph.node, part.graph.output, part.graph.value_info):
        del items[:]
    part.graph.node.extend(n for n in graph.graph.node if needed & set(n.output))
    known = {value.name: value for value in (*graph.graph.output, *graph.graph.value_info)}
    of_any_shape = (
        onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in outputs
    )
    part.graph.output.extend(known.get(value.name, value) for value in of_any_shape)
    kept = [tensor for tensor in part.graph.initializer if tensor.name in needed]
    inputs = [value for value in part.graph.input if value.name in needed]
    del part.graph.initializer[:], part.graph.input[:]
    part.graph.initializer.extend(kept)
    part.graph.input.extend(inputs)
    return part


def values_for(graph: onnx.ModelProto, outputs: Sequence[str]) -> set[str]:
    """Return the names of all values, constants and inputs among them, that ``outputs`` need.

    Raises:
        BackendError: The graph computes no such value.
    """
    made_by = {name: node for node in graph.graph.node for name in node.output}
    missing = [name for name in outputs if name not in made_by]
    if missing:
        raise BackendError(f"the graph computes no {', '.join(missing)}")
    needed: set[str] = set()
    wanted = list(outputs)
    while wanted:
        name = wanted.pop()
        if name not in needed:
            needed.add(name)
            wanted += made_by[name].input if name in made_by else ()
    return needed


def last_hidden(graph: onnx.ModelProto) -> str:
    """Return the name of what the heads read.

    Raises:
        BackendError: The graph was exported before heads bore their names, or every head has an
            encoder of its own.
    """
    heads = [node for node in graph.graph.node if node.name.startswith("heads.")]
    inside = {name for node in heads for name in node.output}
    inside |= {tensor.name for tensor in graph.graph.initializer}
    read = {str(name) for node in heads for name in node.input if name and name not in inside}
    if len(read) != 1:
        raise BackendError(f"the heads read {len(read)} values, not one shared hidden state")
    return read.pop()


def build(files: Sequence[Path], threads: int, count: int, length: int, vocabulary: int) -> Run:
    """Return what runs one graph or several in a row."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    sessions = [
        onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        for file in files
    ]
    windows = full_windows(count, length, vocabulary)._asdict()
    feeds = [{one.name: np.asarray(windows[one.name]) for one in s.get_inputs()} for s in sessions]

    def work(_: object) -> None:
        for session, feed in zip(sessions, feeds, strict=True):
            session.run(None, feed)

    return timed(work)


def write_parts(graph: onnx.ModelProto, folder: Path) -> dict[str, Path]:
    """Write the encoder, each head's graph, and all of it; return the files by name."""
    wanted: dict[str, Sequence[str]] = {ENCODER: (last_hidden(graph),), **SCORES}
    wanted[ALL] = [value.name for value in graph.graph.output]
    files = {}
    for name, outputs in wanted.items():
        files[name] = folder / f"{name.replace(' ', '_')}.onnx"
        onnx.save(cut(graph, outputs), files[name])
    return files


def share_table(times: KernelTimes, hidden: str, threads: int) -> Table:
    """Return what heads and joining take of a call beside the encoder.

    Args:
        times: Of all operators of a graph.
        hidden: The value that the heads read.
        threads: Of one operator.
    """
    needed = values_for(times.graph, [hidden])
    nodes = times.graph.graph.node
    encoder = {node.name for node in nodes if needed & set(node.output)}
    others = {node.name for node in nodes} - encoder
    below, above = times.of(encoder), times.of(others)
    least, rest = times.least(encoder), times.least(others)
    rows = [
        ("encoder", spread(list(below), 3), f"{below.mean():.3f}", f"{least:.3f}"),
        ("heads and joining", spread(list(above), 3), f"{above.mean():.3f}", f"{rest:.3f}"),
        (
            "heads and joining, % of the encoder",
            spread(list(100 * above / below), 2),
            f"{100 * above.mean() / below.mean():.2f}",
            f"{100 * rest / least:.2f}",
        ),
    ]
    return Table(
        f"Share of kernel time: {len(below)} calls, threads: {threads}",
        ("operators of", "ms, median (least to most)", "mean", "each operator at its fastest"),
        rows,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Time the parts in turns and print the ratios."""
    flags = parser(__doc__, repeats=31)
    flags.add_argument("--precision", choices=["int8", "fp32"], default="int8")
    flags.add_argument("--windows", type=int, default=2, help="in a call")
    flags.add_argument("--length", type=int, default=512)
    flags.add_argument("--calls", type=int, default=100, help="whose operators are timed")
    given = flags.parse_args(arguments)
    bundle = read_bundle(given.bundle)
    path = bundle.path(choose_graph(bundle, given.precision).file)
    sizes = (given.threads, given.windows, given.length, vocabulary_of(given.bundle))
    graph = onnx.load(path)
    inputs = full_windows(given.windows, given.length, sizes[-1])._asdict()
    feed = {one.name: np.asarray(inputs[one.name]) for one in graph.graph.input}
    with tempfile.TemporaryDirectory() as scratch:
        files = write_parts(graph, Path(scratch))
        groups = {name: [file] for name, file in files.items()}
        groups[THREE] = [files[name] for name in SCORES]
        contenders = [Contender(name, build, (group, *sizes)) for name, group in groups.items()]
        outcome = race(contenders, given.repeats)
    shares_of = [
        share_table(profile(path, feed, given.calls, threads), last_hidden(graph), threads)
        for threads in sorted({1, given.threads})
    ]
    rows = [(name, milliseconds(outcome.measured[name, None].seconds(), 2)) for name in groups]
    shares = [100 * (ratio - 1) for ratio in outcome.ratios(ALL, ENCODER)]
    ratios = [
        ("heads and joining, % of the encoder", spread(shares, 2)),
        *((f"all scores / {name} alone", spread(outcome.ratios(ALL, name), 3)) for name in SCORES),
        ("three passes / all scores", spread(outcome.ratios(THREE, ALL), 2)),
    ]
    title = f"{given.precision}, {given.windows} x {given.length} positions a call:"
    publish(
        "heads",
        [
            Table(title, ("part", "ms, median (least to most)"), rows),
            Table("Ratios, round by round:", ("what", "median (least to most)"), ratios),
            *shares_of,
        ],
        given,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
