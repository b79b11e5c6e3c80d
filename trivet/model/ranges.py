"""How large the numbers get that a product reads: what a fixed scale of eight bits needs.

Real windows go through the fp32 graph in ONNX Runtime, and the sizes of what each large product
reads are counted in histograms, one call at a time. ONNX Runtime's own calibrators keep what every
``MatMul`` of the graph reads and writes, scores of attention included, until the last call is done;
its histograms lose the largest size where an edge of theirs is rounded below it (1.31).

Needs ``trivet[export]``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from trivet.data.windows import Windows
from trivet.model.qdq import EightBit, large_products
from trivet.records import EngineError

# Share of the sizes that fit. A few tokens are far larger than all others: in int8 steps wide
# enough for them would leave few to the rest. fp8's steps grow with the numbers.
_SHARES: dict[EightBit, float] = {"int8": 0.9999, "fp8": 1.0}
_BINS = 4096
_SMALLEST = 1e-6  # where a histogram ends at first


def find_ranges(
    graph: onnx.ModelProto, calls: Sequence[Windows], kind: EightBit, threads: int | None = None
) -> dict[str, float]:
    """Return the largest size to be told apart of what each large product reads.

    Args:
        graph: In fp32.
        calls: Engine calls of real rows; all are run.
        kind: Of the eight bits.
        threads: Threads of ONNX Runtime; ``None`` takes one for each core.

    Returns:
        The size by the name of the product, as ``qdq.quantized`` takes it.

    Raises:
        EngineError: A product reads something that is not finite.
    """
    read = {node.name: node.input[0] for node in large_products(graph.graph)}
    sizes = {value: SizeCounts() for value in read.values()}
    session = _session(graph, list(sizes), threads)
    for call in calls:
        arrays = call._asdict()
        feed = {one.name: arrays[one.name] for one in session.get_inputs()}
        for value, found in zip(sizes, session.run(list(sizes), feed), strict=True):
            if not np.isfinite(found).all():
                raise EngineError(f"{value}: not finite in fp32; no range of it can be found")
            sizes[value].add(np.abs(found).ravel())
    return {name: sizes[value].below(_SHARES[kind]) for name, value in read.items()}


class SizeCounts:
    """A histogram of sizes that grows: its bins are paired whenever it is too short."""

    def __init__(self) -> None:
        self.counts: npt.NDArray[np.int64] = np.zeros(_BINS, dtype=np.int64)
        self.end = _SMALLEST
        self.largest = 0.0

    def add(self, sizes: npt.NDArray[np.float32]) -> None:
        """Count some sizes, all at least 0."""
        self.largest = max(self.largest, float(sizes.max(initial=0.0)))
        while self.end < self.largest:
            paired = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts, self.end = np.concatenate([paired, np.zeros_like(paired)]), 2 * self.end
        self.counts += np.histogram(sizes, bins=_BINS, range=(0.0, self.end))[0]

    def below(self, share: float) -> float:
        """Return a size that at least ``share`` of all do not exceed."""
        reached = np.cumsum(self.counts)
        place = int(np.searchsorted(reached, share * int(reached[-1])))
        return min((place + 1) * self.end / _BINS, self.largest)


def _session(
    graph: onnx.ModelProto, values: Sequence[str], threads: int | None
) -> onnxruntime.InferenceSession:
    """Load a graph that answers with ``values`` instead of its outputs."""
    told = onnx.ModelProto()
    told.CopyFrom(graph)
    del told.graph.output[:]
    told.graph.output.extend(
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in values
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    options.enable_mem_pattern = False
    return onnxruntime.InferenceSession(
        told.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
