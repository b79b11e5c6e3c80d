"""Labelled examples to batches of tensors, for Lightning.

Everything is read, cut and labelled once, ahead of training; a row that is altered for an epoch is
read again when its batch is asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import lightning
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from trivet.data.labelled.augmentation.augment import Augmentation, augment_batch
from trivet.data.labelled.batching import WindowBatches
from trivet.data.labelled.labels import Targets, collate_labels, lay_labels
from trivet.data.segment_tokenizer import SegmentTokenizer
from trivet.data.tokenization import TokenizedExample, tokenize_examples
from trivet.data.windows import Layout, Windows, WindowSettings, collate, lay_out
from trivet.records import ConfigError, LabelledExample

logger = logging.getLogger(__name__)

_READ_AT_ONCE = 256  # examples tokenized in one batch


@dataclass(frozen=True, slots=True)
class Item:
    """One example, read, cut and labelled."""

    labelled: LabelledExample
    read: TokenizedExample
    layout: Layout
    targets: Targets


Read = Callable[[Sequence[LabelledExample]], list[Item]]
"""Tokenizes, cuts and labels examples, as ``prepare`` does with a tokenizer and settings."""


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
        reads = tokenize_examples([labelled.example for labelled in block], tokenizer)
        for labelled, read in zip(block, reads, strict=True):
            layout = lay_out(read, settings, tokenizer.special)
            targets = lay_labels(labelled, read, layout, use_evidence)
            items.append(Item(labelled, read, layout, targets))
    return items


class _Items(Dataset[list[Item]]):
    """Items by the batch: the sampler's indices are lists."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items

    def __getitem__(self, indices: list[int]) -> list[Item]:
        return [self._items[index] for index in indices]


class _AugmentedItems(Dataset[list[Item]]):
    """Items by the batch, altered at random by (seed, epoch, row); the altered are read anew."""

    def __init__(
        self, items: Sequence[Item], batches: WindowBatches, augmentation: Augmentation, read: Read
    ) -> None:
        self._items = items
        self._examples = [item.labelled for item in items]
        self._batches = batches
        self._augmentation = augmentation
        self._read = read

    def __getitem__(self, indices: list[int]) -> list[Item]:
        given = [self._examples[index] for index in indices]
        seed, epoch = self._batches.seed or 0, self._batches.epoch
        examples = augment_batch(given, indices, self._augmentation, seed, epoch, self._examples)
        altered = [new for new, old in zip(examples, given, strict=True) if new is not old]
        reread = iter(self._read(altered) if altered else ())
        return [
            self._items[index] if new is old else next(reread)
            for index, new, old in zip(indices, examples, given, strict=True)
        ]


class ResumableLoader(DataLoader[list[Item]]):
    """A loader that knows its place within an epoch: a run that stops there may go on there."""

    def __init__(self, items: Dataset[list[Item]], batches: WindowBatches, pad: int) -> None:
        # As a plain sampler Lightning finds it and sets its epoch; as a batch sampler it does not.
        super().__init__(
            items,
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
        seed: Of the shuffle and of what is altered.
        augmentation: How probable it is that a row of ``train`` is altered; dev never is.
        read: Tokenizes, cuts and labels altered examples as ``train`` was; needed if any are.

    Raises:
        ValueError: Rows are to be altered, but not how they are read.
    """

    def __init__(
        self,
        train: Sequence[Item],
        dev: Sequence[Item],
        pad: int,
        batch_windows: int,
        seed: int,
        augmentation: Augmentation | None = None,
        read: Read | None = None,
    ) -> None:
        super().__init__()
        batches = WindowBatches([item.layout for item in train], batch_windows, seed)
        items: Dataset[list[Item]] = _Items(train)
        if augmentation is not None and augmentation.alters:
            if read is None:
                raise ValueError("augmentation needs read, which tokenizes what it altered")
            items = _AugmentedItems(train, batches, augmentation, read)
        self._train = ResumableLoader(items, batches, pad)
        sorted_batches = WindowBatches([item.layout for item in dev], batch_windows, None)
        self._dev = ResumableLoader(_Items(dev), sorted_batches, pad)

    def train_dataloader(self) -> ResumableLoader:
        """Shuffled by (seed, epoch); of several devices, this one's share."""
        self._train.batches.share(*self._place())
        return self._train

    def val_dataloader(self) -> ResumableLoader:
        """Sorted by length; of several devices, this one's share."""
        self._dev.batches.share(*self._place())
        return self._dev

    def _place(self) -> tuple[int, int]:
        """Return the rank of this device and how many there are."""
        trainer = self.trainer
        return (0, 1) if trainer is None else (trainer.global_rank, trainer.world_size)

    # Lightning restores a loader only if it was not asked for the number of steps before, as every
    # schedule asks; a data module it always restores.
    def state_dict(self) -> dict[str, Any]:
        """Return the place within the epoch, the same on every device."""
        return self._train.state_dict() | {"devices": self._place()[1]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there.

        Raises:
            ConfigError: The run was shared among another number of devices.
        """
        before, now = state_dict.get("devices", 1), self._place()[1]
        if before != now:
            raise ConfigError(
                f"run.devices ({now}): the run to be resumed was shared among {before}; "
                "give the same number"
            )
        # The length of an epoch depends on the share: it is taken first.
        self.train_dataloader().load_state_dict(state_dict)

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
