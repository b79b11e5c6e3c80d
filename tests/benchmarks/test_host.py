"""The naive host gives the scores of ours, and reads the same windows."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.inputs import build_example, full_windows
from benchmarks.naive import join_in_loops, read_window_by_window
from benchmarks.pipeline import STAGES, NoEngine, Pipeline
from trivet.backends.loading import EMBEDDED_BUNDLE
from trivet.bundle.bundle import read_bundle
from trivet.model.aggregate import gather_tokens, supported_anywhere, weakest, weighted_share


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return Pipeline(read_bundle(EMBEDDED_BUNDLE), NoEngine())


@pytest.mark.parametrize(("context", "other"), [(300, 100), (2000, 100), (1000, 300)])
def test_an_example_has_about_the_tokens_it_was_asked_for(
    pipeline: Pipeline, context: int, other: int
) -> None:
    sizes = pipeline.time(build_example(pipeline.tokenizer, context, other))
    assert sizes["context_tokens"] == pytest.approx(context, rel=0.03)
    assert sizes["other_tokens"] == pytest.approx(other, rel=0.06)


def test_the_stages_are_parts_of_the_whole(pipeline: Pipeline) -> None:
    sample = pipeline.time(build_example(pipeline.tokenizer, 1000))
    assert all(sample[stage] >= 0 for stage in STAGES)
    assert sum(sample[stage] for stage in STAGES) <= sample["total"]


def test_the_naive_host_reads_the_same_windows(pipeline: Pipeline) -> None:
    example = build_example(pipeline.tokenizer, 1500)
    read = pipeline.read(example)
    layout = pipeline.lay_out(read)
    rows = read_window_by_window(example, read, layout, pipeline.tokenizer)
    assert len(rows) > 2
    assert rows == [row.tolist() for row in layout.rows]


def test_the_naive_host_joins_to_the_same_scores(pipeline: Pipeline) -> None:
    read = pipeline.read(build_example(pipeline.tokenizer, 1500))
    layout = pipeline.lay_out(read)
    shape = (3, len(layout.rows), max(len(row) for row in layout.rows))
    probs = np.random.default_rng(1).random(shape).astype(np.float32)
    response_at = np.where(
        layout.response_row < 0, -1, layout.response_row * shape[2] + layout.response_column
    )[None]
    context_at = (layout.context_row * shape[2] + layout.context_column)[None]
    support, relevance, utilization = probs.reshape(3, -1)
    tokens = supported_anywhere(support, response_at)
    weight = layout.context_weight[None]
    expected = [
        weakest(tokens, np.ones_like(tokens, dtype=np.bool_)),
        weighted_share(gather_tokens(relevance, context_at), weight),
        weighted_share(gather_tokens(utilization, context_at), weight),
    ]
    assert join_in_loops(layout, probs) == pytest.approx([float(one[0]) for one in expected])


@pytest.mark.parametrize(("count", "length"), [(1, 16), (2, 128), (3, 512)])
def test_full_windows_have_no_padding_and_maps_that_hold(count: int, length: int) -> None:
    windows = full_windows(count, length, vocabulary=100)
    assert windows.input_ids.shape == (count, length)
    assert windows.attention_mask.all()
    for places in (windows.response_at, windows.context_at):
        assert places.min() >= 0
        assert places.max() < count * length
    shown = windows.segment_ids.reshape(-1)
    assert (shown[windows.response_at] == 1).all()
    assert (shown[windows.context_at] == 0).all()
    assert windows.context_weight.sum() == pytest.approx(1, abs=1e-5)
    assert windows.sentence_pool.sum(axis=-1) == pytest.approx(1)
