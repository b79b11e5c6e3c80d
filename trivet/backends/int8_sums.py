"""Detect processors on which ONNX Runtime's fast int8 kernels overflow, and avoid these kernels.

On x86-64 without VNNI they silently add pairs of products in 16 bits. The slower kernels are exact
for any weights; graphs of ``exporting.int8`` have 7-bit weights and do not need them.
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
    """Select the slower kernels if the fast ones overflow."""
    if quick_sums_overflow():
        options.add_session_config_entry("session.x64quantprecision", "1")


@functools.cache
def quick_sums_overflow() -> bool:
    """Return whether the sums of the largest products are wrong; takes milliseconds, cached."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(PROBE, options, providers=["CPUExecutionProvider"])
    left, right = np.full((4, 64), 255, np.uint8), np.full((64, 16), 127, np.int8)
    (sums,) = session.run(None, {"a": left, "b": right})
    exact = left.astype(np.int32) @ right.astype(np.int32)
    return not np.array_equal(sums, exact)
