"""Items to batches: every example once an epoch, within the budget, by (seed, epoch) alone."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightning.fabric.utilities.data import _set_sampler_epoch

from trivet.data.module import (
    Item,
    RagData,
    WindowBatches,
    collate_items,
    fill_batches,
    prepare,
    truths,
)
from trivet.data.tokens import SegmentTokenizer
from trivet.data.windows import WindowSettings
from trivet.records import LabelledExample, Labels, RagExample

# The windows and the longest row of each example.
SIZES = st.lists(st.tuples(st.integers(1, 9), st.integers(8, 64)), min_size=1, max_size=60)


@pytest.fixture
def items(wordpiece_file: Path, labelled_examples: tuple[LabelledExample, ...]) -> list[Item]:
    tokenizer = SegmentTokenizer.from_file(wordpiece_file)
    return prepare(labelled_examples * 4, tokenizer, WindowSettings(32))


@given(SIZES, st.integers(1, 8), st.none() | st.integers(0, 3), st.integers(0, 3))
def test_every_example_comes_once_and_no_batch_is_too_large(
    sizes: list[tuple[int, int]], budget: int, seed: int | None, epoch: int
) -> None:
    windows, widths = np.asarray(sizes).T
    batches = fill_batches(windows, widths, budget, seed, epoch)
    assert sorted(index for batch in batches for index in batch) == list(range(len(sizes)))
    for batch in batches:
        assert windows[batch].sum() <= budget or len(batch) == 1
    assert batches == fill_batches(windows, widths, budget, seed, epoch)
    assert len(batches) == len(fill_batches(windows, widths, budget, 0, 0))


def test_the_order_depends_on_seed_and_epoch() -> None:
    windows, widths = np.ones(200, dtype=np.int64), np.arange(200)
    orders = {
        (seed, epoch): str(fill_batches(windows, widths, 4, seed, epoch))
        for seed in (0, 1)
        for epoch in (0, 1)
    }
    assert len(set(orders.values())) == 4


def test_rows_of_like_length_stand_together() -> None:
    random = np.random.default_rng(0)
    widths = random.integers(16, 512, 4000)
    windows = random.integers(1, 4, 4000)
    batches = fill_batches(windows, widths, 16, seed=0)
    padded = sum(int(windows[batch].sum()) * int(widths[batch].max()) for batch in batches)
    assert padded < 1.15 * (windows * widths).sum()
    # Yet long and short batches follow each other at random.
    first = [int(widths[batch].mean()) for batch in batches[:50]]
    assert max(first) - min(first) > 200


def test_without_a_seed_the_examples_are_sorted() -> None:
    widths = np.asarray([9, 30, 12, 30, 8])
    windows = np.asarray([1, 2, 1, 1, 1])
    assert fill_batches(windows, widths, 2, None) == [[4, 0], [2, 3], [1]]


def test_prepared_items_keep_their_examples(items: list[Item]) -> None:
    for item in items:
        assert item.targets.window_class.shape == item.layout.response_row.shape
        assert len(item.targets.relevant) == len(item.layout.context_row)
    names = [item.labelled.example.id for item in items]
    assert names == ["mill", "bread", "ferry"] * 4


def test_a_batch_holds_tensors_of_one_shape(items: list[Item]) -> None:
    batch = collate_items(items[:3], pad=0)
    examples, tokens, copies = batch.windows.response_at.shape
    assert examples == 3
    assert batch.windows.input_ids.shape[0] == sum(len(item.layout.rows) for item in items[:3])
    assert batch.targets.window_class.shape == (3, tokens, copies)
    assert batch.targets.token_supported.shape == (3, tokens)
    assert batch.targets.relevant.shape == batch.windows.context_at.shape
    assert batch.targets.adherent.tolist() == [0, 0, 1]
    assert [example.example.id for example in batch.examples] == ["mill", "bread", "ferry"]
    assert all(isinstance(tensor, torch.Tensor) for tensor in (*batch.windows, *batch.targets))


def names_of(data: RagData) -> list[list[str | None]]:
    return [[example.example.id for example in batch.examples] for batch in data.train_dataloader()]


def test_lightning_finds_the_sampler_and_sets_its_epoch(items: list[Item]) -> None:
    data = RagData(items, items[:3], pad=0, batch_windows=4, seed=0)
    loader = data.train_dataloader()
    epochs = []
    for epoch in (0, 1, 0):
        _set_sampler_epoch(loader, epoch)
        epochs.append([sorted(batch) for batch in loader.batches])
    assert epochs[0] == epochs[2] != epochs[1]
    assert len(loader) == len(epochs[0]) == len(epochs[1])


def test_a_loader_goes_on_where_its_state_was_kept(items: list[Item]) -> None:
    data = RagData(items, items[:3], pad=0, batch_windows=4, seed=0)
    whole = names_of(data)
    assert len(whole) > 3
    started = iter(data.train_dataloader())
    next(started), next(started)
    state = data.state_dict()

    fresh = RagData(items, items[:3], pad=0, batch_windows=4, seed=0)
    fresh.load_state_dict(state)
    assert names_of(fresh) == whole[2:]
    assert names_of(fresh) == whole, "only the first epoch after a resume is shortened"


def test_a_run_stopped_at_the_end_of_an_epoch_begins_the_next_one_whole(items: list[Item]) -> None:
    batches = WindowBatches(items, budget=4, seed=0)
    batches.resume(len(batches))
    assert len(list(batches)) == len(batches)


def test_the_epoch_may_be_set_after_the_iterator_was_made(items: list[Item]) -> None:
    late, early = WindowBatches(items, 4, seed=0), WindowBatches(items, 4, seed=0)
    iterator = iter(late)
    late.set_epoch(3)
    early.set_epoch(3)
    assert list(iterator) == list(early) != list(WindowBatches(items, 4, seed=0))


def test_dev_is_sorted_and_the_same_each_time(items: list[Item]) -> None:
    data = RagData(items, items, pad=0, batch_windows=4, seed=0)
    seen = [
        [example.example.id for batch in data.val_dataloader() for example in batch.examples]
        for _ in range(2)
    ]
    assert seen[0] == seen[1]
    assert sorted(map(str, seen[0])) == sorted(["mill", "bread", "ferry"] * 4)


def test_a_batch_moves_without_its_texts(items: list[Item]) -> None:
    data = RagData(items, items, pad=0, batch_windows=4, seed=0)
    batch = collate_items(items[:2], pad=0)
    moved = data.transfer_batch_to_device(batch, torch.device("meta"), 0)
    assert all(tensor.device.type == "meta" for tensor in (*moved.windows, *moved.targets))
    assert moved.examples == batch.examples


def test_unknown_truths_are_nan() -> None:
    example = RagExample("", ("A mill.",), "A mill.")
    known = Labels(adherent=True, relevance=0.5)
    found = truths(
        [LabelledExample(example, known, "a", "a"), LabelledExample(example, Labels(), "a", "b")]
    )
    assert found["adherent"][0] == 1.0
    assert found["relevance"][0] == 0.5
    assert math.isnan(found["utilization"][0])
    assert all(math.isnan(values[1]) for values in found.values())
