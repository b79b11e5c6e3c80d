"""Labelled examples to batches of tensors, for Lightning.

Everything is read, cut and labelled once; a batch is filled by windows, not by examples, with rows
of like length together.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import lightning
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from trivet.data.labels import Targets, collate_labels, lay_labels
from trivet.data.reading import ReadExample, read_examples
from trivet.data.tokens import IntArray, SegmentTokenizer
from trivet.data.windows import Layout, Windows, WindowSettings, collate, lay_out
from trivet.records import LabelledExample

logger = logging.getLogger(__name__)

_READ_AT_ONCE = 256  # examples tokenized in one batch
_SHUFFLED_TOGETHER = 16  # batches' worth of examples of like length that change places


@dataclass(frozen=True, slots=True)
class Item:
    """One example, read, cut and labelled."""

    labelled: LabelledExample
    read: ReadExample
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
            targets = lay_labels(labelled, read, layout, use_evidence)
            items.append(Item(labelled, read, layout, targets))
    return items


def fill_batches(
    windows: IntArray, widths: IntArray, budget: int, seed: int | None, epoch: int = 0
) -> list[list[int]]:
    """Group examples into batches of at most ``budget`` windows, rows of like length together.

    An example with more windows than that is a batch of its own. The order depends on (seed, epoch)
    alone; without a seed the examples are sorted by length. Examples change places only with others
    of as many windows, so every epoch has the same number of batches: the schedule and the checks
    of dev are laid out for it.

    Args:
        windows: Windows of each example.
        widths: Longest row of each example, in tokens.
        budget: Windows in a batch.
        seed: Of the shuffle.
        epoch: Of the shuffle.
    """
    order = np.lexsort((widths, windows))
    random = None if seed is None else np.random.default_rng((seed, epoch))
    if random is not None:
        first_of_count = np.flatnonzero(np.diff(windows[order], prepend=-1))
        for run in np.split(order, first_of_count):
            for first in range(0, len(run), _SHUFFLED_TOGETHER * budget):
                random.shuffle(run[first : first + _SHUFFLED_TOGETHER * budget])
    batches: list[list[int]] = []
    held = budget  # full: the first example opens a batch
    for index in order.tolist():
        if held + windows[index] > budget:
            batches.append([])
            held = 0
        batches[-1].append(index)
        held += int(windows[index])
    if random is not None:
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
        self._length = len(self._batches())
        self._skip = 0
        self.given = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the shuffle; Lightning calls this before each epoch."""
        self._epoch = epoch

    def resume(self, given: int) -> None:
        """Begin the next epoch behind its first ``given`` batches; at its end, begin anew."""
        self._skip = given if given < self._length else 0

    def _batches(self) -> list[list[int]]:
        return fill_batches(self._windows, self._widths, self._budget, self._seed, self._epoch)

    def __iter__(self) -> Iterator[list[int]]:
        # Lightning makes the iterator before it sets the epoch: nothing may run before the first.
        self.given, self._skip = self._skip, 0
        for batch in self._batches()[self.given :]:
            self.given += 1
            yield batch

    def __len__(self) -> int:
        return self._length


class _Items(Dataset[list[Item]]):
    """Items by the batch: the sampler's indices are lists."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items

    def __getitem__(self, indices: list[int]) -> list[Item]:
        return [self._items[index] for index in indices]


class ResumableLoader(DataLoader[list[Item]]):
    """A loader that knows its place within an epoch: a run that stops there may go on there."""

    def __init__(self, items: Sequence[Item], batches: WindowBatches, pad: int) -> None:
        # As a plain sampler Lightning finds it and sets its epoch; as a batch sampler it does not.
        super().__init__(
            _Items(items),
            sampler=batches,
            batch_size=None,
            collate_fn=partial(collate_items, pad=pad),
        )
        self.batches = batches

    def state_dict(self) -> dict[str, int]:
        """Remember how many batches of this epoch were given."""
        return {"batches": self.batches.given}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Skip what the stopped run had done of its epoch."""
        self.batches.resume(state["batches"])


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
        self._train = ResumableLoader(train, WindowBatches(train, batch_windows, seed), pad)
        self._dev = ResumableLoader(dev, WindowBatches(dev, batch_windows, None), pad)

    def train_dataloader(self) -> ResumableLoader:
        """Shuffled by (seed, epoch)."""
        return self._train

    def val_dataloader(self) -> ResumableLoader:
        """Sorted by length."""
        return self._dev

    # Lightning restores a loader only if it was not asked for the number of steps before, as every
    # schedule asks; a data module it always restores.
    def state_dict(self) -> dict[str, Any]:
        """Return the place within the epoch."""
        return self._train.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        self._train.load_state_dict(state_dict)

    def transfer_batch_to_device(
        self, batch: Batch, device: torch.device, dataloader_idx: int
    ) -> Batch:
        """Move the tensors; the examples beside them are texts."""
        return Batch(
            windows=Windows(*(tensor.to(device) for tensor in batch.windows)),
            targets=Targets(*(tensor.to(device) for tensor in batch.targets)),
            examples=batch.examples,
        )


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
