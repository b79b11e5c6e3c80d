"""Operators are timed one by one, each once a call; they are the encoder's or what follows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks.heads import last_hidden, share_table, values_for
from benchmarks.inputs import full_windows
from benchmarks.kernel_times import KernelTimes, profile
from trivet.backends.loading import EMBEDDED_BUNDLE
from trivet.bundle.bundle import INT8_NAME
from trivet.records import BackendError

CALLS = 4


@pytest.fixture(scope="module")
def times() -> KernelTimes:
    """The embedded model's operators, in a few short calls."""
    feed = full_windows(2, 32, vocabulary=1000)._asdict()
    return profile(EMBEDDED_BUNDLE / INT8_NAME, feed, CALLS, threads=1)


def test_every_operator_is_timed_once_a_call(times: KernelTimes) -> None:
    names = {node.name for node in times.graph.graph.node}
    assert names == times.milliseconds.keys()
    assert all(taken.shape == (CALLS,) for taken in times.milliseconds.values())
    kinds = {node.op_type for node in times.graph.graph.node}
    assert {"BiasGelu", "MatMulIntegerToFloat"} <= kinds, "the graph as it is run, with fusions"


def test_operators_belong_to_the_encoder_or_to_what_follows(times: KernelTimes) -> None:
    hidden = last_hidden(onnx.load(EMBEDDED_BUNDLE / INT8_NAME))
    needed = values_for(times.graph, [hidden])
    encoder = {node.name for node in times.graph.graph.node if needed & set(node.output)}
    others = times.milliseconds.keys() - encoder
    heads = {name for name in times.milliseconds if name.startswith("heads.")}
    assert heads and heads < others
    products = [n for n in times.graph.graph.node if n.op_type == "MatMulIntegerToFloat"]
    assert len(products) == 24 and {node.name for node in products} < encoder
    table = share_table(times, hidden, threads=1)
    assert f"{CALLS} calls" in table.title
    encoder_row, others_row, share = ([float(cell) for cell in row[2:]] for row in table.rows)
    assert share == pytest.approx(
        [100 * above / below for above, below in zip(others_row, encoder_row, strict=True)],
        rel=0.02,
    )
    every = [encoder_row[0] + others_row[0], times.of(set(times.milliseconds)).mean()]
    assert every[0] == pytest.approx(every[1], abs=0.002)


def test_sums_are_taken_call_by_call_and_the_least_operator_by_operator() -> None:
    taken = {"a": np.array([1.0, 5.0]), "b": np.array([4.0, 2.0]), "c": np.array([9.0, 9.0])}
    times = KernelTimes(onnx.ModelProto(), taken)
    assert times.of({"a", "b"}).tolist() == [5.0, 7.0]
    assert times.least({"a", "b", "not timed"}) == 3.0


def test_a_profile_that_does_not_fit_its_graph_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.kernel_times._KERNEL", "_no_such_event")
    feed = full_windows(1, 32, vocabulary=1000)._asdict()
    with pytest.raises(BackendError, match=r"model\.int8\.onnx: the profile does not have each"):
        profile(EMBEDDED_BUNDLE / INT8_NAME, feed, 1, threads=1)
