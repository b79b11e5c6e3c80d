"""Batches of tensors: shuffled, altered, shared among devices, resumed."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from lightning.fabric.utilities.data import _set_sampler_epoch

from trivet.data.tokenization import SegmentTokenizer
from trivet.data.windows import WindowSettings
from trivet.errors import ConfigError
from trivet.evaluation.preprocessing import PreprocessedExample, Preprocessor
from trivet.labelled.augmentation.augment import Augmentation
from trivet.labelled.datamodule import Item, RagData, collate_items, prepare
from trivet.records import LabelledExample, Labels, RagExample


@pytest.fixture
def items(wordpiece_file: Path, labelled_examples: tuple[LabelledExample, ...]) -> list[Item]:
    tokenizer = SegmentTokenizer.from_file(wordpiece_file)
    return prepare(labelled_examples * 4, tokenizer, WindowSettings(32))


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


def test_rows_are_tokenized_as_a_bundle_reads_them(wordpiece_file: Path) -> None:
    tokenizer, settings = SegmentTokenizer.from_file(wordpiece_file), WindowSettings(64)
    example = RagExample("Is it old?", ('{"mill": {"built": "1790"}}',), "It is old.")
    (item,) = prepare(
        [LabelledExample(example, Labels(adherent=True), "s", "g")], tokenizer, settings
    )
    (read,) = Preprocessor(tokenizer, settings).preprocess([example])
    assert isinstance(read, PreprocessedExample)
    assert item.tokenized.context.ids.tolist() == read.tokens.context.ids.tolist()


def test_each_head_has_the_mean_count_of_its_examples_over_the_epoch(items: list[Item]) -> None:
    data = RagData(items, items[:3], pad=0, batch_windows=4, seed=0)
    batches = list(data.train_dataloader())
    # Each third row has labels of contexts, and all have some of support.
    for head, labelled in (("support", 12), ("relevance", 4), ("utilization", 4)):
        (mean,) = {batch.mean_labelled[head] for batch in batches}
        assert mean == pytest.approx(labelled / len(batches))


def names_of(data: RagData) -> list[list[str | None]]:
    return [[example.example.id for example in batch.examples] for batch in data.train_dataloader()]


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


def test_only_altered_rows_are_read_anew(items: list[Item], wordpiece_file: Path) -> None:
    seen: list[list[LabelledExample]] = []
    tokenizer = SegmentTokenizer.from_file(wordpiece_file)

    def read(examples: Sequence[LabelledExample]) -> list[Item]:
        seen.append(list(examples))
        return prepare(examples, tokenizer, WindowSettings(32))

    def run(augmentation: Augmentation) -> RagData:
        return RagData(items, items[:3], 0, 4, 0, augmentation, read)

    def batches(data: RagData, epoch: int) -> list[list[LabelledExample]]:
        _set_sampler_epoch(data.train_dataloader(), epoch)
        return [batch.examples for batch in data.train_dataloader()]

    plain = batches(run(Augmentation()), 0)
    assert not seen
    half = Augmentation(shuffle=0.5, permute_contexts=0.5)
    data = run(half)
    first, second = batches(data, 0), batches(data, 1)
    originals = [item.labelled for item in items]
    altered = [example for batch in first for example in batch if example not in originals]
    assert 0 < len(altered) < len(items)
    names, same = ([[e.example.id for e in batch] for batch in epoch] for epoch in (first, plain))
    assert names == same
    again, anew = (sorted(str(e) for batch in epoch for e in batch) for epoch in (first, second))
    assert again != anew, "each epoch alters the rows in another way"
    assert batches(run(half), 0) == first

    fresh = run(half)
    fresh.load_state_dict({"batches": 2})
    assert batches(fresh, 0) == first[2:], "a resumed run alters what the whole one altered"
    # The tensors are those of the altered example, and dev is never altered.
    (batch, *_) = run(Augmentation(empty_response=1)).train_dataloader()
    emptied = [not example.example.response for example in batch.examples]
    assert emptied == (batch.windows.response_at < 0).flatten(1).all(-1).tolist()
    dev = run(Augmentation(shuffle=1)).val_dataloader()
    assert all(example in originals for batch in dev for example in batch.examples)


@pytest.mark.parametrize("read", [0, 2])
def test_workers_make_the_same_batches_and_go_on_alike(
    items: list[Item], wordpiece_file: Path, read: int
) -> None:
    tokenizer = SegmentTokenizer.from_file(wordpiece_file)
    again = partial(prepare, tokenizer=tokenizer, settings=WindowSettings(32))

    def rest(workers: int) -> list[list[LabelledExample]]:
        changes = Augmentation(permute_contexts=0.5)
        started, data = (
            RagData(items, items[:3], 0, 4, 0, changes, again, workers=workers) for _ in range(2)
        )
        begun = iter(started.train_dataloader())
        for _ in range(read):
            next(begun)
        data.load_state_dict(started.state_dict())
        loader = data.train_dataloader()
        iterator = iter(loader)  # Lightning sets the epoch after this
        _set_sampler_epoch(loader, 1)
        return [batch.examples for batch in iterator]

    # In a thread torch leaves SIGCHLD alone. Its handler ends a process in which OpenVINO has freed
    # the alternate signal stack, as soon as a child of any test ends.
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(rest, 2).result() == rest(workers=0)


def test_rows_are_prepared_once_and_by_the_stages_that_need_them(items: list[Item]) -> None:
    asked: list[str] = []

    def rows(name: str) -> list[Item]:
        asked.append(name)
        return items[:4]

    train, dev, test = (partial(rows, name) for name in ("train", "dev", "test"))
    data = RagData(train, dev, 0, 4, 0, test=test)
    assert not asked
    for stage, read in (("validate", ["dev"]), ("fit", ["train"]), ("test", ["test"])):
        data.setup(stage)
        assert asked == read
        asked.clear()
    loaders = (data.train_dataloader, data.val_dataloader, data.test_dataloader)
    assert all(len(list(loader())) for loader in (*loaders, data.predict_dataloader))
    assert not asked


def shared(items: list[Item], rank: int, world: int) -> RagData:
    data = RagData(items, items[:3], pad=0, batch_windows=4, seed=0)
    data.trainer = cast(Any, SimpleNamespace(global_rank=rank, world_size=world))
    return data


def test_devices_share_both_loaders(items: list[Item]) -> None:
    ranks = [shared(items, rank, 2) for rank in range(2)]
    counts = [names_of(data) for data in ranks]
    assert len(counts[0]) == len(counts[1]) == len(ranks[0].train_dataloader())
    seen = {str(name) for batches in counts for batch in batches for name in batch}
    assert seen == {"mill", "bread", "ferry"}
    dev = [e.example.id for data in ranks for b in data.val_dataloader() for e in b.examples]
    assert sorted(map(str, dev)) == ["bread", "ferry", "mill"], "each is judged once"


def test_a_shared_run_goes_on_among_as_many_devices(items: list[Item]) -> None:
    whole = names_of(shared(items, 1, 2))
    started = shared(items, 0, 2)
    next(iter(started.train_dataloader()))
    state = started.state_dict()
    resumed = shared(items, 1, 2)
    resumed.load_state_dict(state)
    assert names_of(resumed) == whole[1:]
    with pytest.raises(ConfigError, match=r"run.devices \(3\): .* shared among 2"):
        shared(items, 0, 3).load_state_dict(state)
