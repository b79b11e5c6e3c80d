"""Cost of the heads and the joining relative to the encoder, by ONNX Runtime's own profiler.

python -m benchmarks.heads [--bundle DIR] [--precision int8] [--windows 2] [--length 512]

The heads cost less than two timings of a call differ by, so every operator of the graph is timed
within the same calls. Operators that the last hidden state needs belong to the encoder, all others
to heads and joining.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from benchmarks.backends import tokenizer_of
from benchmarks.inputs import full_windows
from benchmarks.report import Table, parser, publish, spread
from trivet.backends.backend import choose_graph
from trivet.backends.onnx_runtime import keep_int8_sums_exact
from trivet.bundle.bundle import read_bundle
from trivet.errors import BackendError

WARM_UP = 3
_KERNEL = "_kernel_time"


class KernelTimes(NamedTuple):
    """Profile of a graph.

    Attributes:
        graph: Graph as ONNX Runtime optimized it, with fused operators.
        milliseconds: Milliseconds of every operator, call by call, by the operator's name.
    """

    graph: onnx.ModelProto
    milliseconds: Mapping[str, npt.NDArray[np.float64]]

    def total(self, names: set[str]) -> npt.NDArray[np.float64]:
        """Return the milliseconds of the named operators, call by call."""
        each = [taken for name, taken in self.milliseconds.items() if name in names]
        total: npt.NDArray[np.float64] = np.sum(each, axis=0)
        return total


def values_for(graph: onnx.ModelProto, outputs: Sequence[str]) -> set[str]:
    """Return the names of all values that ``outputs`` need, constants and inputs included.

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
    """Return the name of the hidden state that the heads read.

    Raises:
        BackendError: The heads' operators are not named, or every head has its own encoder.
    """
    heads = [node for node in graph.graph.node if node.name.startswith("heads.")]
    inside = {name for node in heads for name in node.output}
    inside |= {tensor.name for tensor in graph.graph.initializer}
    # Prefix attention reads sizes and masks, too; weights multiply the hidden state alone.
    products = [node for node in heads if node.op_type in ("MatMul", "Gemm")]
    read = {str(name) for node in products for name in node.input if name and name not in inside}
    if len(read) != 1:
        raise BackendError(f"the heads read {len(read)} values, not one shared hidden state")
    return read.pop()


def profile(
    file: Path, feed: Mapping[str, npt.NDArray[Any]], calls: int, threads: int
) -> KernelTimes:
    """Run a graph and return the time of each of its operators.

    Raises:
        BackendError: The profile does not have each operator once a call.
    """
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.enable_mem_pattern = False
        options.log_severity_level = 3
        keep_int8_sums_exact(options)
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
        session = onnxruntime.InferenceSession(
            str(file), options, providers=["CPUExecutionProvider"]
        )
        for _ in range(WARM_UP + calls):
            session.run(None, dict(feed))
        events = json.loads(Path(session.end_profiling()).read_bytes())
        graph = onnx.load(options.optimized_model_filepath)
    taken = defaultdict(list)
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith(_KERNEL):
            taken[event["name"].removesuffix(_KERNEL)].append(event["dur"] / 1000)
    known = {node.name for node in graph.graph.node}
    odd = sorted(
        name for name, each in taken.items() if name not in known or len(each) != WARM_UP + calls
    )
    if odd or not taken:
        raise BackendError(
            f"{file}: the profile does not have each operator once a call: {', '.join(odd[:5])}"
        )
    return KernelTimes(graph, {name: np.array(each[WARM_UP:]) for name, each in taken.items()})


def share_table(times: KernelTimes, hidden: str, threads: int) -> Table:
    """Return the share of heads and joining."""
    needed = values_for(times.graph, [hidden])
    nodes = times.graph.graph.node
    encoder = {node.name for node in nodes if needed & set(node.output)}
    below, above = times.total(encoder), times.total({node.name for node in nodes} - encoder)
    rows = [
        ("encoder", spread(list(below), 3), f"{below.mean():.3f}"),
        ("heads and joining", spread(list(above), 3), f"{above.mean():.3f}"),
        (
            "heads and joining, % of the encoder",
            spread(list(100 * above / below), 2),
            f"{100 * above.mean() / below.mean():.2f}",
        ),
    ]
    title = f"Share of kernel time: {len(below)} calls, threads: {threads}"
    return Table(title, ("operators of", "ms, median (least to most)", "mean"), rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Profile the graph on one thread and on all, and print the shares."""
    flags = parser(__doc__, repeats=1)
    flags.add_argument("--precision", choices=["int8", "fp32"], default="int8")
    flags.add_argument("--windows", type=int, default=2, help="windows of a call")
    flags.add_argument("--length", type=int, default=512)
    flags.add_argument("--calls", type=int, default=100, help="timed calls")
    given = flags.parse_args(arguments)
    bundle = read_bundle(given.bundle)
    path = bundle.path(choose_graph(bundle, given.precision).file)
    graph, vocabulary = onnx.load(path), tokenizer_of(given.bundle).vocab_size
    inputs = full_windows(given.windows, given.length, vocabulary)._asdict()
    feed = {one.name: np.asarray(inputs[one.name]) for one in graph.graph.input}
    tables = [
        share_table(profile(path, feed, given.calls, threads), last_hidden(graph), threads)
        for threads in sorted({1, given.threads})
    ]
    publish("heads", tables, given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
