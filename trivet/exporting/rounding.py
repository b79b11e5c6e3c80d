"""Round weights so that products with typical inputs change least: GPTQ, arXiv 2210.17323.

Rounding each weight to the nearest integer changes the products most where inputs vary together.
GPTQ rounds the weights of one input after another, and those of the inputs left make up for the
error. It needs no labels and nothing of the inputs but the mean of their products in pairs.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper

from trivet.bundle.bundle import Bundle
from trivet.data.windows import Windows
from trivet.errors import DataError
from trivet.evaluation.evaluator import Evaluator
from trivet.exporting.graph_files import save_graph
from trivet.model.aggregate import Outputs, outputs_from
from trivet.records import FailedEvaluation, RagExample

logger = logging.getLogger(__name__)

Products = Mapping[str, npt.NDArray[np.float64]]
"""For each tensor of X features the mean of x x^T over tokens x, [X, X], by its name."""

# Share of the mean square of all inputs that is added to each one's, as in the paper.
_DAMPING = 0.01
# Inputs whose errors reach the inputs after them in one product; a matter of speed alone.
_BLOCK = 128


def measure_products(
    graph: onnx.ModelProto,
    tensors: Collection[str],
    bundle: Bundle,
    examples: Sequence[RagExample],
    scratch: Path,
    threads: int | None = None,
) -> Products:
    """Run a graph on the windows of examples and return the products of tensors inside it.

    Args:
        graph: Graph from ``Windows`` to ``Outputs``, in fp32.
        tensors: Names of tensors inside it, of shape [N, L, X] each.
        bundle: Bundle whose tokenizer and windows are used.
        examples: Typical examples; one that is refused is logged and left out.
        scratch: Folder for a copy of the graph.
        threads: Threads of ONNX Runtime; ``None`` uses one per core.

    Raises:
        DataError: None of the examples can be evaluated.
    """
    watched = _WatchedGraph(graph, tensors, scratch, threads)
    results = list(Evaluator(bundle.folder, backend=watched).evaluate_many(examples))
    failed = [result for result in results if isinstance(result, FailedEvaluation)]
    if len(failed) == len(results):
        reason = f"; the first: {failed[0].message}" if failed else ""
        raise DataError(f"none of the {len(results)} examples to round for is evaluated{reason}")
    if failed:
        logger.warning(
            "%d of %d examples to round for are left out; the first: %s",
            *(len(failed), len(results), failed[0].message),
        )
    return watched.products()


class _WatchedGraph:
    """A backend that also adds up the products of tensors inside its graph, padding left out."""

    name = "onnxruntime, watched"

    def __init__(
        self, graph: onnx.ModelProto, tensors: Collection[str], scratch: Path, threads: int | None
    ) -> None:
        """Load a copy of the graph; arguments as of ``measure_products``."""
        copied = onnx.ModelProto()
        copied.CopyFrom(graph)
        for name in tensors:
            value = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
            copied.graph.output.append(value)
        path = scratch / "watched.onnx"
        save_graph(copied, path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or 0
        self._session = onnxruntime.InferenceSession(
            str(path), sess_options=options, providers=["CPUExecutionProvider"]
        )
        self._inputs = [node.name for node in self._session.get_inputs()]
        self._outputs = [node.name for node in self._session.get_outputs()]
        self._sums: dict[str, Any] = dict.fromkeys(tensors, 0.0)
        self._tokens = 0

    def run(self, windows: Windows) -> Outputs:
        """Run the graph once; see ``Backend.run``."""
        arrays = windows._asdict()
        given = {name: arrays[name] for name in self._inputs}
        answer = dict(zip(self._outputs, self._session.run(self._outputs, given), strict=True))
        real = windows.attention_mask > 0
        for name in self._sums:
            values = answer[name][real]
            self._sums[name] = self._sums[name] + (values.T @ values).astype(np.float64)
        self._tokens += int(real.sum())
        return outputs_from(answer)

    def products(self) -> Products:
        """Return the products over all calls so far, of which there is at least one."""
        return {name: sums / self._tokens for name, sums in self._sums.items()}


def round_for(
    matrix: npt.NDArray[np.float32],
    scale: npt.NDArray[np.float32],
    products: npt.NDArray[np.float64],
    largest: int,
) -> npt.NDArray[np.int8]:
    """Return integers whose products with typical inputs, times ``scale``, are those of a matrix.

    The largest weight of each column keeps its nearest integer, so the integers times ``scale``
    round to the same integers again.

    Args:
        matrix: Weights, [X, Y]; X inputs.
        scale: Size of an integer step in each column, [1, Y]; 0 for a column of zeros.
        products: Mean products of the inputs in pairs, [X, X].
        largest: Limit of the integers on both sides of 0.
    """
    steps = (matrix / np.where(scale > 0, scale, 1)).astype(np.float64)
    # Inputs of the largest squares first: all others can make up for their errors.
    order = np.argsort(-np.diag(products), kind="stable")
    left = steps[order]
    peaks = np.abs(left) == np.abs(left).max(axis=0)
    nearest = np.rint(left)
    damped = products[np.ix_(order, order)] + np.eye(len(left)) * _damping(products)
    # The upper Cholesky factor of the inverse; row i says how inputs after i make up for i.
    upper = np.linalg.cholesky(np.linalg.inv(damped)).T
    rounded = np.empty_like(left)
    for first in range(0, len(left), _BLOCK):
        last = min(first + _BLOCK, len(left))
        errors = np.empty_like(left[first:last])
        for row in range(first, last):
            adjusted = np.clip(np.rint(left[row]), -largest, largest)
            rounded[row] = np.where(peaks[row], nearest[row], adjusted)
            error = (left[row] - rounded[row]) / upper[row, row]
            left[row + 1 : last] -= upper[row, row + 1 : last, None] * error
            errors[row - first] = error
        left[last:] -= upper[first:last, last:].T @ errors
    found = np.empty_like(rounded)
    found[order] = rounded
    return found.astype(np.int8)


def _damping(products: npt.NDArray[np.float64]) -> float:
    """Return what is added to each input's mean square, so that the products have an inverse."""
    return float(_DAMPING * np.diag(products).mean()) or 1.0
