"""What this machine can do at most: products of large matrices, and copying memory.

In torch; int8 in ONNX Runtime, by the kernels that its engine runs on this processor: torch has
none but a plain loop where there is no VNNI.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import numpy.typing as npt
import onnxruntime

from benchmarks.timing import Contender, Measured, Run, race, timed
from trivet.backends.int8_sums import keep_int8_sums_exact

ROWS, INNER, COLUMNS = 2048, 1024, 4096
COPIED = 512_000_000  # bytes, far beyond any cache
COPY = "copy"


def build(threads: int) -> Run:
    """Return what multiplies in the precision that its case names, or copies."""
    import torch

    torch.set_num_threads(threads)
    matrices = torch.randn(ROWS, INNER), torch.randn(INNER, COLUMNS)
    left, right = (matrix.bfloat16() for matrix in matrices)
    rng = np.random.default_rng(0)
    given_bytes = {"given": rng.integers(0, 256, (ROWS, INNER), dtype=np.uint8)}
    # Weights as ``exporting.int8`` writes them.
    bytes_by = _int8_session(rng.integers(-64, 65, (INNER, COLUMNS), dtype=np.int8), threads)
    given, taken = torch.zeros(COPIED // 4), torch.zeros(COPIED // 4)
    works: dict[str, Callable[[], object]] = {
        "fp32": lambda: matrices[0] @ matrices[1],
        "bf16": lambda: left @ right,
        "int8": lambda: bytes_by.run(None, given_bytes),
        COPY: lambda: taken.copy_(given),
    }
    return timed(lambda case: works[case]())


def measure_peaks(
    threads: int, repeats: int, precisions: Collection[str]
) -> dict[str, list[float]]:
    """Return 10^9 operations a second by precision, and GB a second of ``copy``; one a round.

    Args:
        threads: Of torch, and of ONNX Runtime.
        repeats: Rounds.
        precisions: Of ``fp32``, ``bf16`` and ``int8``, those to be measured: bf16 takes minutes
            where a processor has no instructions for it.

    Raises:
        ImportError: torch is not installed.
    """
    outcome = race([Contender("peaks", build, (threads,))], repeats, (*precisions, COPY))
    if outcome.skipped:
        raise ImportError(f"{outcome.skipped['peaks']}; pip install 'trivet[export]'")
    work = dict.fromkeys(precisions, 2 * ROWS * INNER * COLUMNS / 1e9) | {COPY: 2 * COPIED / 1e9}
    return {name: _rates(outcome.measured["peaks", name], work[name]) for name in work}


def _int8_session(matrix: npt.NDArray[np.int8], threads: int) -> onnxruntime.InferenceSession:
    """Return what multiplies bytes by ``matrix``, as the engine does."""
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["given", "matrix"], ["product"])],
        "bytes",
        [helper.make_tensor_value_info("given", TensorProto.UINT8, [None, len(matrix)])],
        [helper.make_tensor_value_info("product", TensorProto.INT32, [None, matrix.shape[1]])],
        [numpy_helper.from_array(matrix, "matrix")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # torch's threads wait in the same process.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    keep_int8_sums_exact(options)
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _rates(measured: Measured, work: float) -> list[float]:
    return [work / seconds for seconds in measured.seconds()]
