"""Whether ONNX Runtime's quick int8 kernels add up right on this processor.

On x86-64 without VNNI they add pairs of products of unsigned and signed bytes in 16 bits, which
overflow without a word. There ONNX Runtime is asked for other kernels, which it takes for products
with a weight beyond 64: of graphs that ``int8`` wrote before its weights had 7 bits, and of others.
Elsewhere these kernels would only cost time.
"""

from __future__ import annotations

import functools

import numpy as np
import onnxruntime

# MatMulInteger of uint8 [M, K] by int8 [K, N], opset 21, as `onnx` writes it.
PROBE = bytes.fromhex(
    "080a3a500a180a01610a0162120163220d4d61744d756c496e74656765721201705a0f0a0161120a0a080802"
    "12040a000a005a0f0a0162120a0a08080312040a000a00620f0a0163120a0a08080612040a000a0042040a00"
    "1015"
)


def keep_int8_sums_exact(options: onnxruntime.SessionOptions) -> None:
    """Ask for slower kernels where the quick ones would overflow.

    Args:
        options: Of a session to come.
    """
    if quick_sums_overflow():
        options.add_session_config_entry("session.x64quantprecision", "1")


@functools.cache
def quick_sums_overflow() -> bool:
    """Return whether the largest products do not add up: asked once, in a few milliseconds."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(PROBE, options, providers=["CPUExecutionProvider"])
    left, right = np.full((4, 64), 255, np.uint8), np.full((64, 16), 127, np.int8)
    (sums,) = session.run(None, {"a": left, "b": right})
    exact = left.astype(np.int32) @ right.astype(np.int32)
    return not np.array_equal(sums, exact)
