"""The shared parts of the benchmarks: shapes, inputs, races, tables, profiles."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, strategies

from benchmarks.backends import load_named, null_outputs, recorded_calls, tokenizer_of
from benchmarks.gpu import Case, request_case, request_cases
from benchmarks.heads import last_hidden, profile, share_table, values_for
from benchmarks.inputs import full_windows
from benchmarks.shapes import DEBERTA_V3_LARGE, MINILM_L6, windows_of
from benchmarks.speed import build
from benchmarks.timing import Contender, Measured, Race, race
from trivet.bundle.bundle import INT8_NAME, read_bundle
from trivet.bundle.hub import EMBEDDED_BUNDLE
from trivet.errors import BackendError

CALLS = 4


def test_operations_of_the_two_encoders_are_those_counted_by_hand() -> None:
    # 24 layers of 1024 and 4096, 512 positions, 512 rows of the position table.
    assert DEBERTA_V3_LARGE.gflop(512) == pytest.approx(309.2 + 25.8 + 25.8, abs=0.1)
    assert MINILM_L6.gflop(512) == pytest.approx(13.3, abs=0.05)


def test_windows_of_a_request() -> None:
    assert windows_of(16384, 100, 512) == 41
    assert windows_of(16384, 300, 512) == 79
    assert windows_of(16384, 100, 1024) == 18
    with pytest.raises(ValueError, match=r"question and response \(300 tokens\) leave -48 of 256"):
        windows_of(4096, 300, 256)


@given(
    strategies.integers(1, 20_000),
    strategies.sampled_from((100, 300)),
    strategies.sampled_from((512, 1024)),
    strategies.integers(1, 32),
)
def test_a_request_for_a_gpu_becomes_equal_calls(
    context: int, other: int, length: int, most: int
) -> None:
    case = request_case(context, other, length, most)
    assert case.windows <= most
    assert 0 <= case.windows * case.calls - windows_of(context, other, length) < case.calls


def test_a_length_without_room_for_a_request_is_left_out() -> None:
    cases = request_cases([16384], [100, 300], [256, 512], most=16)
    assert cases[16384, 100, 512] == Case(512, 14, 3)
    assert (16384, 300, 256) not in cases and len(cases) == 3


@pytest.mark.parametrize(("context", "other"), [(300, 100), (1000, 300)])
def test_an_example_has_about_the_requested_tokens(context: int, other: int) -> None:
    sample = build(EMBEDDED_BUNDLE, "int8", 1, other)(context)
    assert sample["context_tokens"] == pytest.approx(context, rel=0.03)
    assert sample["other_tokens"] == pytest.approx(other, rel=0.06)
    ordinary = windows_of(context, other, 512)
    assert read_bundle(EMBEDDED_BUNDLE).info.window.evidence_sentences
    assert sample["windows"] == ordinary + (ordinary > 1)
    assert 0 < sample["backend"] < sample["total"]


def test_recorded_calls_are_not_run_and_the_backend_works_again_afterwards() -> None:
    _, backend = load_named(EMBEDDED_BUNDLE, "int8", 1)
    windows = full_windows(1, 32, tokenizer_of(EMBEDDED_BUNDLE).vocab_size)
    with recorded_calls(backend) as calls:
        np.testing.assert_array_equal(
            backend.run(windows).support_probs, null_outputs(windows).support_probs
        )
    assert calls == [windows]
    assert (backend.run(windows).support_probs != 0.5).any()


def test_contenders_take_turns_and_a_missing_graph_is_a_reason() -> None:
    names = {"int8": "int8", "absent": "fp32"}
    contenders = [Contender(n, build, (EMBEDDED_BUNDLE, one, 1)) for n, one in names.items()]
    outcome = race(contenders, repeats=3, cases=(64, 128))
    assert set(outcome.measured) == {("int8", 64), ("int8", 128)}
    for measured in outcome.measured.values():
        assert len(measured.samples) == 3 and measured.peak_mb > 10
    assert "no fp32 graph" in outcome.skipped["absent"]


def test_ratios_are_taken_round_by_round() -> None:
    slow = Measured([{"total": 2.0}, {"total": 9.0}])
    fast = Measured([{"total": 1.0}, {"total": 3.0}])
    outcome = Race({("slow", None): slow, ("fast", None): fast})
    assert outcome.ratios("slow", "fast") == [2.0, 3.0]
    assert slow.median() == 5.5


def test_every_operator_is_timed_once_a_call_and_belongs_to_one_part() -> None:
    feed = full_windows(2, 32, vocabulary=1000)._asdict()
    times = profile(EMBEDDED_BUNDLE / INT8_NAME, feed, CALLS, threads=1)
    assert {node.name for node in times.graph.graph.node} == times.milliseconds.keys()
    assert all(taken.shape == (CALLS,) for taken in times.milliseconds.values())
    hidden = last_hidden(onnx.load(EMBEDDED_BUNDLE / INT8_NAME))
    needed = values_for(times.graph, [hidden])
    encoder = {node.name for node in times.graph.graph.node if needed & set(node.output)}
    heads = {name for name in times.milliseconds if name.startswith("heads.")}
    assert heads and heads < times.milliseconds.keys() - encoder
    matmuls = [n for n in times.graph.graph.node if n.op_type == "MatMulIntegerToFloat"]
    assert len(matmuls) == 24 and {node.name for node in matmuls} < encoder
    table = share_table(times, hidden, threads=1)
    below, above, share = (float(row[2]) for row in table.rows)
    assert share == pytest.approx(100 * above / below, rel=0.02)
    assert below + above == pytest.approx(times.total(set(times.milliseconds)).mean(), abs=0.002)


def test_a_profile_that_does_not_fit_its_graph_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.heads._KERNEL", "_no_such_event")
    feed = full_windows(1, 32, vocabulary=1000)._asdict()
    with pytest.raises(BackendError, match=r"model\.int8\.onnx: the profile does not have each"):
        profile(EMBEDDED_BUNDLE / INT8_NAME, feed, 1, threads=1)
