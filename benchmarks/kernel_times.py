"""How long each operator of a graph takes in ONNX Runtime, by its own profiler.

Two timings of a call differ by more than a small part of the graph takes; its operators, timed one
by one inside the same calls, do not. Names are those of the graph as ONNX Runtime optimized it.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from trivet.backends.int8_sums import keep_int8_sums_exact
from trivet.records import BackendError

WARM_UP = 3
_KERNEL = "_kernel_time"


class KernelTimes(NamedTuple):
    """What a profile says.

    Attributes:
        graph: As it was run: optimized, with fused operators.
        milliseconds: Of every operator, call by call, by the operator's name.
    """

    graph: onnx.ModelProto
    milliseconds: Mapping[str, npt.NDArray[np.float64]]

    def of(self, names: set[str]) -> npt.NDArray[np.float64]:
        """Return the milliseconds that the operators of these names took, call by call."""
        each = [taken for name, taken in self.milliseconds.items() if name in names]
        total: npt.NDArray[np.float64] = np.sum(each, axis=0)
        return total

    def least(self, names: set[str]) -> float:
        """Return the milliseconds of these operators, each in the call where it was fastest."""
        return float(sum(self.milliseconds[name].min() for name in names & set(self.milliseconds)))


def profile(
    file: Path, feed: Mapping[str, npt.NDArray[Any]], calls: int, threads: int
) -> KernelTimes:
    """Run a graph and return how long each of its operators took.

    Args:
        file: The graph.
        feed: Its inputs.
        calls: How many are counted, after ``WARM_UP`` that are not.
        threads: Of one operator.

    Raises:
        BackendError: The profile names an operator that the graph has not, or not one a call.
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
