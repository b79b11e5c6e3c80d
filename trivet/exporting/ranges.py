"""How large the numbers get that a product reads: what a fixed scale of eight bits needs.

Real windows go through the fp32 graph in ONNX Runtime, one call at a time. ONNX Runtime's own
calibrators keep what every ``MatMul`` of the graph reads and writes, scores of attention included,
until the last call is done, and know no channels.

The largest sizes count, however rare: they matter to the context heads.

Needs ``trivet[export]``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from trivet.data.windows import Windows
from trivet.exporting.qdq import large_products
from trivet.records import BackendError

ChannelSizes = npt.NDArray[np.float32]
"""The largest size in each channel of what a product reads. *Shape:* [inputs]."""


def find_channel_sizes(
    graph: onnx.ModelProto, calls: Sequence[Windows], threads: int | None = None
) -> dict[str, ChannelSizes]:
    """Return the largest size in each channel of what each large product reads.

    Args:
        graph: In fp32.
        calls: Engine calls of real rows; all are run.
        threads: Threads of ONNX Runtime; ``None`` takes one for each core.

    Returns:
        The sizes by the name of the product.

    Raises:
        BackendError: There is no call, or a product reads something that is not finite.
    """
    if not calls:
        raise BackendError("no engine call to find ranges on; give more rows")
    read = {node.name: node.input[0] for node in large_products(graph.graph)}
    sizes: dict[str, ChannelSizes] = {}
    session = _session(graph, list(dict.fromkeys(read.values())), threads)
    values = [one.name for one in session.get_outputs()]
    for call in calls:
        arrays = call._asdict()
        feed = {one.name: arrays[one.name] for one in session.get_inputs()}
        for value, found in zip(values, session.run(values, feed), strict=True):
            if not np.isfinite(found).all():
                raise BackendError(f"{value}: not finite in fp32; no range of it can be found")
            largest = np.abs(found).reshape(-1, found.shape[-1]).max(axis=0)
            sizes[value] = np.maximum(sizes.get(value, np.float32(0)), largest)
    return {name: sizes[value] for name, value in read.items()}


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
