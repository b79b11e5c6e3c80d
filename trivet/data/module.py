"""Labelled examples to batches of tensors, for Lightning.

Everything is read, cut and labelled once; a batch is filled by windows, not by examples, with rows of
like length together.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import lightning
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from trivet.data.labels import Targets, collate_labels, lay_labels
from trivet.data.reading import read_examples
from trivet.data.tokens import IntArray, SegmentTokenizer
from trivet.data.windows import Layout, Windows, WindowSettings, collate, lay_out
from trivet.records import LabelledExample

logger = logging.getLogger(__name__)

_READ_AT_ONCE = 256  # examples tokenized in one batch
_POOL_BATCHES = 50  # batches' worth of shuffled examples that are sorted by length together


@dataclass(frozen=True, slots=True)
class Item:
    """One example, cut and labelled."""

    labelled: LabelledExample
    layout: Layout
    targets: Targets


class Batch(NamedTuple):
    """What a training or validation step gets.

    Attributes:
        windows: ``Windows`` of tensors.
        targets: ``Targets`` of tensors, padded to the windows' B, R, K, C.
        examples: The examples, in order.
    """

    windows: Windows
    targets: Targets
    examples: list[LabelledExample]


def prepare(
    examples: Sequence[LabelledExample],
    tokenizer: SegmentTokenizer,
    settings: WindowSettings,
    use_evidence: bool = True,
) -> list[Item]:
    """Tokenize, cut and label examples, each once."""
    items = []
    for first in range(0, len(examples), _READ_AT_ONCE):
        block = examples[first : first + _READ_AT_ONCE]
        reads = read_examples([labelled.example for labelled in block], tokenizer)
        for labelled, read in zip(block, reads, strict=True):
            layout = lay_out(read, settings, tokenizer.special)
            items.append(Item(labelled, layout, lay_labels(labelled, read, layout, use_evidence)))
    return items


def fill_batches(
    windows: IntArray, widths: IntArray, budget: int, seed: int | None, epoch: int = 0
) -> list[list[int]]:
    """Group examples into batches of at most ``budget`` windows, rows of like length together.

    An example with more windows than that is a batch of its own. The order depends on (seed, epoch)
    alone; without a seed the examples are sorted by length.

    Args:
        windows: Windows of each example.
        widths: Longest row of each example, in tokens.
        budget: Windows in a batch.
        seed: Of the shuffle.
        epoch: Of the shuffle.
    """
    if seed is None:
        pools = [np.argsort(widths, kind="stable")]
    else:
        random = np.random.default_rng((seed, epoch))
        order = random.permutation(len(windows))
        size = _POOL_BATCHES * budget
        pools = [order[first : first + size] for first in range(0, len(order), size)]
        pools = [pool[np.argsort(widths[pool], kind="stable")] for pool in pools]
    batches: list[list[int]] = []
    for pool in pools:
        held = budget + 1  # forces a new batch at each pool
        for index in pool.tolist():
            if held + windows[index] > budget:
                batches.append([])
                held = 0
            batches[-1].append(index)
            held += int(windows[index])
    if seed is not None:
        batches = [batches[place] for place in random.permutation(len(batches))]
    return batches


class WindowBatches(Sampler[list[int]]):
    """Yields ``fill_batches`` of its epoch; after a resume, from where the run had stopped."""

    def __init__(self, items: Sequence[Item], budget: int, seed: int | None) -> None:
        self._windows = np.asarray([len(item.layout.rows) for item in items], dtype=np.int64)
        self._widths = np.asarray(
            [max(len(row) for row in item.layout.rows) for item in items], dtype=np.int64
        )
        self._budget = budget
        self._seed = seed
        self._epoch = 0
        self.skip = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the shuffle; Lightning calls this before each epoch."""
        self._epoch = epoch

    def _batches(self) -> list[list[int]]:
        return fill_batches(self._windows, self._widths, self._budget, self._seed, self._epoch)

    def __iter__(self) -> Iterator[list[int]]:
        skip, self.skip = self.skip, 0
        return iter(self._batches()[skip:])

    def __len__(self) -> int:
        return len(self._batches())


class _Items(Dataset[Item]):
    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> Item:
        return self._items[index]


class RagData(lightning.LightningDataModule):
    """Batches for training and for dev.

    Args:
        train: Items to train on.
        dev: Items that choose.
        pad: Id of the padding token.
        batch_windows: Windows in a batch.
        seed: Of the shuffle.
    """

    def __init__(
        self, train: Sequence[Item], dev: Sequence[Item], pad: int, batch_windows: int, seed: int
    ) -> None:
        super().__init__()
        self._train, self._dev, self._pad = train, dev, pad
        self._train_batches = WindowBatches(train, batch_windows, seed)
        self._dev_batches = WindowBatches(dev, batch_windows, None)

    def train_dataloader(self) -> DataLoader[Item]:
        """Shuffled by (seed, epoch)."""
        return self._loader(self._train, self._train_batches)

    def val_dataloader(self) -> DataLoader[Item]:
        """Sorted by length."""
        return self._loader(self._dev, self._dev_batches)

    def transfer_batch_to_device(
        self, batch: Batch, device: torch.device, dataloader_idx: int
    ) -> Batch:
        """Move the tensors; the examples beside them are texts."""
        return Batch(
            windows=Windows(*(tensor.to(device) for tensor in batch.windows)),
            targets=Targets(*(tensor.to(device) for tensor in batch.targets)),
            examples=batch.examples,
        )

    def state_dict(self) -> dict[str, Any]:
        """Remember how many batches of this epoch are done."""
        progress = self.trainer.fit_loop.epoch_loop.batch_progress if self.trainer else None
        return {"batches": progress.current.completed if progress else 0}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Skip what the stopped run had done of its epoch."""
        done = int(state_dict["batches"])
        # A run stopped at the end of an epoch begins the next one.
        self._train_batches.skip = done if done < len(self._train_batches) else 0

    def _loader(self, items: Sequence[Item], batches: WindowBatches) -> DataLoader[Item]:
        return DataLoader(_Items(items), batch_sampler=batches, collate_fn=self._collate)

    def _collate(self, items: list[Item]) -> Batch:
        return collate_items(items, self._pad)


def collate_items(items: Sequence[Item], pad: int) -> Batch:
    """Pad and stack items into one batch of tensors."""
    windows = collate([item.layout for item in items], pad)
    shape = (*windows.response_at.shape, windows.context_at.shape[1])
    targets = collate_labels([item.targets for item in items], shape)
    return Batch(
        windows=Windows(*map(torch.from_numpy, windows)),
        targets=Targets(*map(torch.from_numpy, targets)),
        examples=[item.labelled for item in items],
    )


def truths(examples: Sequence[LabelledExample]) -> dict[str, Tensor]:
    """Return what is known of each example as numbers, NaN where unknown. *Shape of each:* [B]."""

    def column(values: Sequence[float | None]) -> Tensor:
        return torch.tensor([float("nan") if value is None else float(value) for value in values])

    labels = [example.labels for example in examples]
    return {
        "adherent": column([label.adherent for label in labels]),
        "relevance": column([label.relevance for label in labels]),
        "utilization": column([label.utilization for label in labels]),
    }
