"""What the benchmarks work out without a clock: cost, operations, shares."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies

from benchmarks.card import Case, request_case, request_cases
from benchmarks.cost import LUNA_DOLLARS, LUNA_QPS, dollars_a_million, judge_dollars, machines
from benchmarks.engines import tokenizer_of
from benchmarks.padding import plans, sample_layouts
from benchmarks.roofline import floors, l4_rows
from benchmarks.shapes import (
    DEBERTA_V3_LARGE,
    MINILM_L6,
    Shape,
    request_gflop,
    windows_of,
)
from trivet.backends.backend import POSITIONS
from trivet.backends.loading import EMBEDDED_BUNDLE


def test_operations_of_the_two_encoders_are_those_counted_by_hand() -> None:
    # 24 layers of 1024 and 4096, 512 positions, 512 rows of the table; 16 heads share the width.
    assert DEBERTA_V3_LARGE.gflop(512) == pytest.approx((309.2, 25.8, 25.8), abs=0.05)
    assert sum(MINILM_L6.gflop(512)) == pytest.approx(13.3, abs=0.05)
    # Windows of 128 reach 256 distances at most, so half of the table is left alone.
    assert DEBERTA_V3_LARGE.gflop(128)[2] == pytest.approx(4 * 128 * 256 * 1024 * 24 / 1e9)


def test_one_layer_moves_what_it_reads_and_writes() -> None:
    layer = Shape("one", "bert", 1, 2, 1, 3, 0, 0)
    # A position: 8 in the projections and attention, 2 + 2 * 3 + 2 around the feed-forward part...
    assert layer.moved_mb(1, 1) == pytest.approx((18 * 2 + 2 * 3) / 1e6)
    assert layer.weights_mb(4) == pytest.approx(4 * (4 * 2 * 2 + 2 * 2 * 3) / 1e6)
    with_scores = Shape("one", "bert", 1, 2, 5, 3, 0, 12)
    assert with_scores.moved_mb(10, 1) - layer.moved_mb(10, 1) == pytest.approx(12 * 5 * 100 / 1e6)


@pytest.mark.parametrize(
    ("context", "other", "length", "count"),
    [(16384, 100, 512, 41), (16384, 300, 512, 79), (16384, 100, 1024, 18), (4096, 100, 512, 11)],
)
def test_windows_of_a_request(context: int, other: int, length: int, count: int) -> None:
    assert windows_of(context, other, length) == count


def test_a_window_without_room_for_context_is_refused() -> None:
    with pytest.raises(ValueError, match=r"question and response \(300 tokens\) leave -48 of 256"):
        windows_of(4096, 300, 256)


def test_longer_windows_cost_less_where_question_and_response_are_long() -> None:
    short, long = (request_gflop(DEBERTA_V3_LARGE, 16384, 300, size) for size in (512, 1024))
    assert short / long == pytest.approx(1.6, abs=0.1)


def test_the_cost_model_gives_the_figures_of_the_paper() -> None:
    assert machines(10, 1 / LUNA_QPS) * LUNA_DOLLARS == 1750
    assert dollars_a_million(1750, 10, 4000) == pytest.approx(0.0169, abs=5e-5)
    assert judge_dollars(10, 4000, 0.5, 1.5, 200) == pytest.approx(59_616)


def test_a_floor_is_the_slower_of_operations_and_bytes() -> None:
    peaks = {"fp32": 200.0, "int8": 800.0, "bf16": 400.0, "copy": 20.0}
    in_int8, moved = floors(MINILM_L6, 512, 2, ("int8", "fp32"), peaks)
    in_fp32, more = floors(MINILM_L6, 512, 2, ("fp32", "fp32"), peaks)
    dense, attention, _ = MINILM_L6.gflop(512)
    assert in_fp32 == pytest.approx((dense + attention) / 200)
    assert in_int8 == pytest.approx(dense / 800 + attention / 200)
    assert more > moved  # the weights are four times as large


def test_what_is_said_of_an_l4_is_arithmetic_from_its_data_sheet() -> None:
    (row,) = [row for row in l4_rows() if row[:3] == (16384, 100, 512)]
    assert row[3] == 41
    assert float(str(row[5])) == pytest.approx(120, abs=3)  # milliseconds
    assert row[7] == "13 %"  # of Luna's 0.92 s
    assert not [row for row in l4_rows() if row[1:3] == (300, 256)]  # they do not fit


@given(strategies.lists(strategies.integers(1, 512), min_size=1, max_size=60))
def test_every_way_to_call_runs_every_window_once_in_calls_that_fit(lengths: list[int]) -> None:
    for name, plan in plans(lengths).items():
        assert sorted(number for call in plan.calls for number in call) == list(range(len(lengths)))
        for call, width in zip(plan.calls, plan.widths, strict=True):
            assert width >= max(lengths[number] for number in call), name
            assert len(call) == 1 or len(call) * width <= POSITIONS, name
        assert plan.computed() >= sum(lengths)


def test_sorted_windows_compute_little_more_than_is_useful() -> None:
    layouts = sample_layouts(tokenizer_of(EMBEDDED_BUNDLE))
    lengths = [len(row) for layout in layouts for row in layout.rows]
    ways = {name: plan.computed() / sum(lengths) for name, plan in plans(lengths).items()}
    assert len(layouts) == 48
    assert ways["sorted by length"] <= 1.05
    assert ways["sorted, steps of 64"] <= 1.05
    assert ways["filled up to 512"] > 1.1  # else the sample would show nothing


@given(
    strategies.integers(1, 20_000),
    strategies.sampled_from((100, 300)),
    strategies.sampled_from((512, 1024)),
    strategies.integers(1, 32),
)
def test_a_request_for_a_card_is_cut_into_equal_calls(
    context: int, other: int, length: int, most: int
) -> None:
    case = request_case(context, other, length, most)
    assert case.windows <= most
    windows = case.windows * case.calls
    assert 0 <= windows - windows_of(context, other, length) < case.calls
    assert case.tflop(DEBERTA_V3_LARGE) == pytest.approx(
        windows * sum(DEBERTA_V3_LARGE.gflop(length)) / 1000
    )


def test_a_length_without_room_for_a_request_is_left_out() -> None:
    cases = request_cases([16384], [100, 300], [256, 512], most=16)
    assert cases[16384, 100, 512] == Case(512, 14, 3)
    assert (16384, 300, 256) not in cases
    assert len(cases) == 3
