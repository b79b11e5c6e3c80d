"""Measure the second moments of the inputs of matmuls, on the windows of examples."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from trivet.bundle.bundle import Bundle
from trivet.data.windows import Windows
from trivet.errors import BackendError, DataError
from trivet.evaluation.evaluator import Evaluator
from trivet.exporting.graph_files import save_graph
from trivet.exporting.rounding import Moments
from trivet.model.aggregate import Outputs, outputs_from
from trivet.records import FailedEvaluation, RagExample

logger = logging.getLogger(__name__)


def measure_moments(
    graph: onnx.ModelProto,
    tensors: Collection[str],
    bundle: Bundle,
    examples: Sequence[RagExample],
    scratch: Path,
    threads: int | None = None,
) -> Moments:
    """Run a graph on the windows of examples and return the moments of tensors inside it.

    A tensor that is not one of the tokens, such as a table of positions, is left out. Memory: 8 X^2
    bytes for a tensor of X features, 1 GB for all of a BERT-base.

    Args:
        graph: Graph from ``Windows`` to ``Outputs``, in fp32.
        tensors: Names of tensors inside it.
        bundle: Bundle whose tokenizer and windows are used.
        examples: Typical examples; one that is refused is logged and left out.
        scratch: Folder for a copy of the graph.
        threads: Threads of ONNX Runtime; ``None`` uses one per core.

    Raises:
        DataError: None of the examples can be evaluated.
        BackendError: The graph fails, or a tensor has values that are not finite.
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
    logger.info("rounding for %d examples, %d tokens", len(results) - len(failed), watched.tokens)
    return watched.moments()


class _WatchedGraph:
    """A backend that also adds up the products of tensors inside its graph, padding left out."""

    name = "onnxruntime, watched"

    def __init__(
        self, graph: onnx.ModelProto, tensors: Collection[str], scratch: Path, threads: int | None
    ) -> None:
        """Load a copy of the graph; arguments as of ``measure_moments``."""
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
        self._outputs = [node.name for node in self._session.get_outputs()]
        self._tensors = tuple(tensors)
        self._sums: dict[str, Any] = {}
        self.tokens = 0

    def run(self, windows: Windows) -> Outputs:
        """Run the graph once; see ``Backend.run``."""
        arrays = windows._asdict()
        given = {node.name: arrays[node.name] for node in self._session.get_inputs()}
        try:
            values = self._session.run(self._outputs, given)
        except Exception as error:  # the library's errors share no base class but this one
            raise BackendError(f"{self.name} failed: {error}") from error
        answer = dict(zip(self._outputs, values, strict=True))
        real = windows.attention_mask > 0
        for name in self._tensors:
            if answer[name].shape[:-1] == real.shape:
                inputs = answer[name][real]
                self._sums[name] = self._sums.get(name, 0.0) + np.float64(inputs.T @ inputs)
        self.tokens += int(real.sum())
        return outputs_from(answer)

    def moments(self) -> Moments:
        """Turn the sums of all calls into their means, once; errors as of ``measure_moments``."""
        for name, sums in self._sums.items():
            if not np.isfinite(sums).all():
                raise BackendError(f"{name}: not finite on the examples to round for")
            sums /= self.tokens
        return self._sums
