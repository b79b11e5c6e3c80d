"""Batches by windows: every example once an epoch, within the budget, by (seed, epoch) alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.data.tokenization import SegmentTokenizer, tokenize_examples
from trivet.data.windows import Layout, WindowSettings, lay_out
from trivet.errors import ConfigError
from trivet.labelled.batching import WindowBatches, draw_rows, mix_batches, sort_batches
from trivet.records import RagExample

# The windows and the longest row of each example.
SIZES = st.lists(st.tuples(st.integers(1, 9), st.integers(8, 64)), min_size=1, max_size=60)


@pytest.fixture
def layouts(wordpiece_file: Path, rag_examples: tuple[RagExample, ...]) -> list[Layout]:
    tokenizer = SegmentTokenizer.from_file(wordpiece_file)
    short = [example for example in rag_examples if len(example.contexts[0]) < 200] * 5
    reads = tokenize_examples(short, tokenizer)
    return [lay_out(read, WindowSettings(48), tokenizer.special) for read in reads]


@given(SIZES, st.integers(1, 8))
def test_sorted_batches_hold_every_example_once_within_the_budget(
    sizes: list[tuple[int, int]], budget: int
) -> None:
    windows, widths = np.asarray(sizes).T
    batches = sort_batches(windows, widths, budget)
    assert sorted(index for batch in batches for index in batch) == list(range(len(sizes)))
    for batch in batches:
        assert windows[batch].sum() <= budget or len(batch) == 1


@given(SIZES, st.integers(1, 8), st.integers(1, 9), st.integers(0, 3), st.integers(0, 3))
def test_mixed_batches_are_level_and_as_many_in_every_epoch(
    sizes: list[tuple[int, int]], budget: int, world: int, seed: int, epoch: int
) -> None:
    windows = np.asarray(sizes)[:, 0]
    batches = mix_batches(windows, budget, seed, epoch, world)
    read = [index for batch in batches for index in batch]
    assert set(read) == set(range(len(sizes)))
    assert len(read) == max(len(sizes), world), "repeated only if fewer than devices"
    assert all(batches)
    assert len(batches) % world == 0
    assert len(batches) == len(mix_batches(windows, budget, 0, 0, world))
    assert batches == mix_batches(windows, budget, seed, epoch, world)
    held = [int(windows[batch].sum()) for batch in batches]
    assert max(held) - min(held) <= max(windows)


@given(
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from([0.3, 1.0, 2.5])), min_size=1),
    st.integers(0, 3),
)
def test_rows_are_drawn_in_turn_and_as_often_as_asked(
    rows: list[tuple[int, float]], seed: int
) -> None:
    windows, draws = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    epochs = [draw_rows(windows, draws, seed, epoch) for epoch in range(6)]
    shapes = {tuple(sorted(windows[epoch].tolist())) for epoch in epochs}
    assert len(shapes) == 1, "an epoch has as many rows of each size as any other"
    seen = np.bincount(np.concatenate(epochs), minlength=len(rows))
    for share in set(draws.tolist()):
        for count in set(windows.tolist()):
            stratum = (draws == share) & (windows == count)
            if not stratum.any():
                continue
            assert np.ptp(seen[stratum]) <= 1, "no row comes again before all have come"
            wanted = 6 * max(1, round(share * stratum.sum()))
            assert seen[stratum].sum() == wanted


def test_the_order_depends_on_seed_and_epoch() -> None:
    windows = np.ones(200, dtype=np.int64)
    pairs = [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert len({str(mix_batches(windows, 4, *pair)) for pair in pairs}) == 4


def test_every_batch_has_rows_of_every_length_and_kind() -> None:
    random = np.random.default_rng(0)
    windows, rare = random.integers(1, 4, 4000), np.arange(4000) < 400
    batches = mix_batches(windows, 32, seed=0)
    assert sum(rare[batch].any() for batch in batches) > 0.7 * len(batches)
    assert all(len(set(windows[batch].tolist())) == 3 for batch in batches)


def shares(layouts: list[Layout], world: int, seed: int | None) -> list[list[list[int]]]:
    return [list(share(layouts, rank, world, seed)) for rank in range(world)]


def share(layouts: list[Layout], rank: int, world: int, seed: int | None) -> WindowBatches:
    batches = WindowBatches(layouts, 4, seed)
    batches.share(rank, world)
    return batches


@pytest.mark.parametrize("world", [1, 2, 3, 5])
def test_training_devices_step_together_and_miss_nothing(layouts: list[Layout], world: int) -> None:
    whole = list(WindowBatches(layouts, 4, seed=0))
    parts = shares(layouts, world, seed=0)
    (length,) = {len(part) for part in parts}
    part = share(layouts, 0, world, 0)
    assert length == len(part) == part.epoch_batches / world <= -(-len(whole) // world)
    read = [index for part in parts for batch in part for index in batch]
    assert sorted(read) == list(range(len(layouts))), "each example once"
    assert shares(layouts[:1], 3, seed=0) == [[[0]]] * 3, "too few examples are repeated"


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_devices_that_judge_share_every_example_once(layouts: list[Layout], world: int) -> None:
    parts = shares(layouts, world, seed=None)
    judged = [index for part in parts for batch in part for index in batch]
    assert sorted(judged) == list(range(len(layouts)))
    assert all(parts), "an idle device would hold up the others"


def test_too_few_examples_to_judge_are_refused(layouts: list[Layout]) -> None:
    assert all(shares(layouts[:3], 3, seed=None))
    with pytest.raises(ConfigError, match=r"run.devices \(4\): only 3 examples of dev"):
        share(layouts[:3], 0, 4, None)
