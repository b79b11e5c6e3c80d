"""How large the numbers get that a product reads: what a fixed scale of eight bits needs.

Real windows go through the fp32 graph in ONNX Runtime, and the sizes of what each large product
reads are counted in histograms, one call at a time. These are ONNX Runtime's own; its calibrators
around them are not used, for they keep what every ``MatMul`` of the graph reads and writes, scores
of attention included, until the last call is done.

Needs ``trivet[export]``.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence

import onnx
import onnxruntime
from onnxruntime.quantization.calibrate import HistogramCollector

from trivet.data.windows import Windows
from trivet.model.qdq import EightBit, large_products

# Share of the sizes that fit, in percent. A few tokens are far larger than all others: in int8
# steps wide enough for them would leave few to the rest. fp8's steps grow with the numbers.
_PERCENTILES: dict[EightBit, float] = {"int8": 99.99, "fp8": 100.0}
_BINS = 4096


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
    """
    read = {node.name: node.input[0] for node in large_products(graph.graph)}
    collector = HistogramCollector(
        method="percentile",
        symmetric=True,
        num_bins=_BINS,
        num_quantized_bins=0,  # of no use to this method
        percentile=_PERCENTILES[kind],
        scenario="same",
    )
    session = _session(graph, list(dict.fromkeys(read.values())), threads)
    with contextlib.redirect_stdout(sys.stderr):  # it prints; stdout is for results
        for call in calls:
            arrays = call._asdict()
            feed = {one.name: arrays[one.name] for one in session.get_inputs()}
            found = session.run(list(dict.fromkeys(read.values())), feed)
            collector.collect(dict(zip(dict.fromkeys(read.values()), found, strict=True)))
        ends = collector.compute_collection_result()
    # The ends come cut to what was seen on either side.
    return {name: float(max(-ends[value][0], ends[value][1])) for name, value in read.items()}


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
