"""int8 sums are exact on any processor: the quick kernels are tried before they are used."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from trivet.backends import onnx_runtime
from trivet.backends.onnx_runtime import (
    OnnxRuntimeBackend,
    keep_int8_sums_exact,
    quick_sums_overflow,
)
from trivet.bundle.bundle import SELF_TEST_NAME, read_bundle
from trivet.bundle.hub import EMBEDDED_BUNDLE
from trivet.bundle.self_test import read_self_test
from trivet.data.windows import Windows

ENTRY = "session.x64quantprecision"


@pytest.mark.parametrize("overflow", [True, False])
def test_other_kernels_are_asked_for_only_where_they_are_needed(
    monkeypatch: pytest.MonkeyPatch, overflow: bool
) -> None:
    monkeypatch.setattr(onnx_runtime, "quick_sums_overflow", lambda: overflow)
    options = onnxruntime.SessionOptions()
    keep_int8_sums_exact(options)
    if overflow:
        assert options.get_session_config_entry(ENTRY) == "1"
    else:
        with pytest.raises(RuntimeError, match=ENTRY):
            options.get_session_config_entry(ENTRY)


def test_both_kernels_give_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    (graph,) = (graph for graph in read_bundle(EMBEDDED_BUNDLE).info.graphs if graph.sums_fit)
    windows = Windows(**read_self_test(EMBEDDED_BUNDLE / SELF_TEST_NAME).arrays())
    answers = []
    for overflow, known_to_fit in ((True, False), (quick_sums_overflow(), False), (True, True)):
        monkeypatch.setattr(onnx_runtime, "quick_sums_overflow", lambda overflow=overflow: overflow)
        backend = OnnxRuntimeBackend(EMBEDDED_BUNDLE / graph.file, 1, sums_fit=known_to_fit)
        answers.append(backend.run(windows))
    for other in answers[1:]:
        for answer, same in zip(answers[0], other, strict=True):
            np.testing.assert_array_equal(answer, same)


def test_sums_of_the_shipped_graph_fit() -> None:
    graph = onnx.load(EMBEDDED_BUNDLE / "model.int8.onnx").graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    matmuls = [node for node in graph.node if node.op_type == "MatMulIntegerToFloat"]
    assert len(matmuls) == 24
    for node in matmuls:
        weights = numpy_helper.to_array(constants[node.input[1]])
        assert 2 * 255 * int(np.abs(weights.astype(int)).max()) < 2**15, node.name
