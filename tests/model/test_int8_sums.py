"""int8 sums are exact on any processor: the quick kernels are tried before they are used."""

from __future__ import annotations

import onnxruntime
import pytest
from onnx import TensorProto, helper

from trivet.model import int8_sums
from trivet.model.int8_sums import PROBE, keep_int8_sums_exact, quick_sums_overflow
from trivet.serve.evaluator import Evaluator

ENTRY = "session.x64quantprecision"


def test_the_probe_is_a_product_of_bytes() -> None:
    kinds = {"a": TensorProto.UINT8, "b": TensorProto.INT8, "c": TensorProto.INT32}
    ends = {n: helper.make_tensor_value_info(n, kind, [None, None]) for n, kind in kinds.items()}
    node = helper.make_node("MatMulInteger", ["a", "b"], ["c"])
    graph = helper.make_graph([node], "p", [ends["a"], ends["b"]], [ends["c"]])
    opsets = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    assert model.SerializeToString() == PROBE


@pytest.mark.parametrize("overflow", [True, False])
def test_other_kernels_are_asked_for_only_where_they_are_needed(
    monkeypatch: pytest.MonkeyPatch, overflow: bool
) -> None:
    monkeypatch.setattr(int8_sums, "quick_sums_overflow", lambda: overflow)
    options = onnxruntime.SessionOptions()
    keep_int8_sums_exact(options)
    if overflow:
        assert options.get_session_config_entry(ENTRY) == "1"
    else:
        with pytest.raises(RuntimeError, match=ENTRY):
            options.get_session_config_entry(ENTRY)


def test_both_kernels_give_the_same_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = []
    for overflow in (True, quick_sums_overflow()):
        monkeypatch.setattr(int8_sums, "quick_sums_overflow", lambda overflow=overflow: overflow)
        verdicts.append(
            Evaluator(threads=1).evaluate(
                "When was the stone bridge built?",
                ["The stone bridge over the river was built in 1884. It replaced a ferry."],
                "It was built in 1884.",
            )
        )
    assert verdicts[0] == verdicts[1]
