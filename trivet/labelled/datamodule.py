"""Labelled examples to batches of tensors, for Lightning.

All examples are tokenized, cut and labelled once, before training; a row that augmentation alters
is prepared again when its batch is loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import lightning
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from trivet.data.collating import collate
from trivet.data.tokenization import SegmentTokenizer, TokenizedExample, tokenize_examples
from trivet.data.windows import Layout, Windows, WindowSettings, lay_out
from trivet.errors import ConfigError
from trivet.labelled.augmentation.augment import Augmentation, augment_batch
from trivet.labelled.batching import WindowBatches
from trivet.labelled.labels import (
    EvidencePairs,
    Targets,
    align_labels,
    collate_labels,
    collate_pairs,
    evidence_labels,
)
from trivet.labelled.pairs import right_and_wrong
from trivet.labelled.similarity import Retriever
from trivet.records import LabelledExample

_BLOCK = 256  # examples tokenized in one batch


@dataclass(frozen=True, slots=True)
class Item:
    """One example, tokenized, cut and labelled."""

    labelled: LabelledExample
    tokenized: TokenizedExample
    layout: Layout
    targets: Targets


Prepare = Callable[[Sequence[LabelledExample]], list[Item]]
"""``prepare`` with a tokenizer and settings."""


class Batch(NamedTuple):
    """Tensors of one step (targets are padded like the windows), and its examples.

    ``mean_labelled`` is the mean number of examples with labels for each head, and of all examples
    as ``teacher``, over the batches of the epoch. Losses are divided by it, so an example's weight
    is independent of its batch.
    ``is_evidence`` tells which copies of the response tokens are in evidence windows, [B, K].
    ``truths`` has the labels of whole examples (``truths``), [B] each. ``opposites`` are the pairs
    of a right and a wrong response to the same contexts, by their places in the batch, [P, 2].
    """

    windows: Windows
    is_evidence: Tensor
    targets: Targets
    pairs: EvidencePairs
    truths: Mapping[str, Tensor]
    opposites: Tensor
    examples: list[LabelledExample]
    mean_labelled: Mapping[str, float]


def prepare(
    examples: Sequence[LabelledExample],
    tokenizer: SegmentTokenizer,
    settings: WindowSettings,
    use_evidence: bool = True,
    retriever: Retriever | None = None,
) -> list[Item]:
    """Tokenize, cut and label examples, each once, as a bundle reads them.

    With a ``retriever``, examples with labels of relevance have its cosines among their targets.
    """
    items = []
    for first in range(0, len(examples), _BLOCK):
        block = examples[first : first + _BLOCK]
        examples_of = [labelled.example for labelled in block]
        leads = settings.leads
        texts = tokenize_examples(
            examples_of, tokenizer, leads, structured=True, sort=settings.sort_contexts
        )
        for labelled, tokenized in zip(block, texts, strict=True):
            layout = lay_out(tokenized, settings, tokenizer.special)
            targets = align_labels(labelled, tokenized, layout, use_evidence)
            if retriever is not None and labelled.labels.relevant is not None:
                targets = targets._replace(cosine=retriever.cosines(tokenized))
            items.append(Item(labelled, tokenized, layout, targets))
    return items


class _Items(Dataset[list[Item]]):
    """Items by the batch (indices are lists), altered at random and prepared again."""

    def __init__(
        self,
        items: Sequence[Item],
        examples: Sequence[LabelledExample],
        batches: WindowBatches,
        augmentation: Augmentation | None = None,
        prepare_altered: Prepare | None = None,
    ) -> None:
        self._items = items
        self._examples = examples
        self._batches = batches
        self._augmentation = augmentation or Augmentation()
        self._prepare_altered = prepare_altered

    def __getitem__(self, indices: list[int]) -> list[Item]:
        items = [self._items[index] for index in indices]
        if self._prepare_altered is None or not self._augmentation.alters:
            return items
        plain = [item.labelled for item in items]
        seed, epoch = self._batches.seed or 0, self._batches.epoch
        examples = augment_batch(plain, indices, self._augmentation, seed, epoch, self._examples)
        unaltered = {id(item.labelled): item for item in items}
        altered = [example for example in examples if id(example) not in unaltered]
        prepared = iter(self._prepare_altered(altered) if altered else ())
        return [unaltered.get(id(example)) or next(prepared) for example in examples]


class ResumableLoader(DataLoader[list[Item]]):
    """A loader that can resume within an epoch, with any number of worker processes."""

    def __init__(
        self,
        items: Dataset[list[Item]],
        batches: WindowBatches,
        pad: int,
        labelled: Mapping[str, float],
        workers: int = 0,
    ) -> None:
        collate_fn = partial(_collate, pad=pad, labelled=labelled, batches=batches)
        # Lightning sets the epoch of a plain sampler, but not of a batch sampler.
        super().__init__(
            items,
            sampler=batches,
            batch_size=None,
            collate_fn=collate_fn,
            num_workers=workers,
            pin_memory=torch.cuda.is_available(),
        )
        self.batches = batches
        self._batches_read = 0  # batches of this epoch that were read; workers are ahead

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        # A generator, because Lightning creates the iterator before it sets the epoch, which
        # workers copy.
        self._batches_read = self.batches.skipped
        for batch in super().__iter__():
            self._batches_read += 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        """Return how many batches of this epoch were read."""
        return {"batches": self._batches_read}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Skip the batches that the stopped run had read in its epoch."""
        self.batches.resume(state["batches"])


class _Batches:
    """The batches of a loader; for prediction Lightning builds a plain loader anew, which fails."""

    def __init__(self, loader: ResumableLoader) -> None:
        self._loader = loader

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._loader)


Rows = Sequence[Item] | Callable[[], Sequence[Item]]
"""Items, or a function that prepares them when they are needed."""


class RagData(lightning.LightningDataModule):
    """Batches of at most ``batch_windows`` for training, validation, test and prediction.

    The rows of ``train`` are shuffled and altered by ``seed``, those of ``dev`` and ``test`` never;
    ``prepare_altered`` prepares altered examples as ``train`` was, and augmentation needs it.
    ``workers`` processes prepare batches; 0: the training process.
    """

    def __init__(
        self,
        train: Rows,
        dev: Rows,
        pad: int,
        batch_windows: int,
        seed: int,
        augmentation: Augmentation | None = None,
        prepare_altered: Prepare | None = None,
        test: Rows = (),
        workers: int = 0,
    ) -> None:
        super().__init__()
        self._rows = {"train": train, "dev": dev, "test": test}
        self._pad, self._budget, self._seed, self._workers = pad, batch_windows, seed, workers
        self._altered = augmentation, prepare_altered
        self._loaders: dict[str, ResumableLoader] = {}

    def setup(self, stage: str | None = None) -> None:
        """Prepare the rows of a stage, each once; Lightning calls this."""
        names = {"fit": ("train", "dev"), "validate": ("dev",)}.get(stage or "fit", ("test",))
        for name in names:
            self._loader(name)

    def _loader(self, name: str) -> ResumableLoader:
        if name not in self._loaders:
            rows = self._rows[name]
            items = rows() if callable(rows) else rows
            seed = self._seed if name == "train" else None
            examples: list[LabelledExample] = []
            labelled: dict[str, float] = dict.fromkeys(count_labelled(()), 0.0)

            def layouts() -> Iterator[Layout]:  # one pass: items may be read from a file
                for item in items:
                    examples.append(item.labelled)
                    for head, known in _is_labelled(item).items():
                        labelled[head] += known * item.labelled.draws
                    yield item.layout

            batches = WindowBatches(layouts(), self._budget, seed, examples)
            altered = self._altered if name == "train" else ()
            data = _Items(items, examples, batches, *altered)
            self._loaders[name] = ResumableLoader(data, batches, self._pad, labelled, self._workers)
        return self._loaders[name]

    def _shared(self, name: str) -> ResumableLoader:
        loader = self._loader(name)
        loader.batches.share(*self._rank_and_world())
        return loader

    def train_dataloader(self) -> ResumableLoader:
        """Return this device's share of the training batches, shuffled by (seed, epoch)."""
        return self._shared("train")

    def val_dataloader(self) -> ResumableLoader:
        """Return this device's share of the validation batches, sorted by length."""
        return self._shared("dev")

    def test_dataloader(self) -> ResumableLoader:
        """Return this device's share of the test batches, sorted by length."""
        return self._shared("test")

    def predict_dataloader(self) -> _Batches:
        """Return this device's share of the test batches, sorted by length."""
        return _Batches(self._shared("test"))

    def _rank_and_world(self) -> tuple[int, int]:
        trainer = self.trainer
        return (0, 1) if trainer is None else (trainer.global_rank, trainer.world_size)

    # Lightning restores a loader only if nothing has asked for its number of steps before, as every
    # schedule does; it always restores a data module.
    def state_dict(self) -> dict[str, Any]:
        """Return the position within the epoch, equal on every device."""
        return self._loader("train").state_dict() | {"devices": self._rank_and_world()[1]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume within an epoch; ``ConfigError`` if the run had another number of devices."""
        before, now = state_dict.get("devices", 1), self._rank_and_world()[1]
        if before != now:
            raise ConfigError(
                f"run.devices ({now}): the run to be resumed was shared among {before}; "
                "give the same number"
            )
        # The length of an epoch depends on the share, so that is set first.
        self.train_dataloader().load_state_dict(state_dict)

    def transfer_batch_to_device(
        self, batch: Batch, device: torch.device, dataloader_idx: int
    ) -> Batch:
        """Move the tensors; the examples are texts and stay."""

        def move(tensor: Tensor) -> Tensor:
            return tensor.to(device, non_blocking=True)

        return batch._replace(
            windows=Windows(*map(move, batch.windows)),
            is_evidence=move(batch.is_evidence),
            targets=Targets(*map(move, batch.targets)),
            pairs=EvidencePairs(*map(move, batch.pairs)),
            opposites=move(batch.opposites),
            truths={name: move(truth) for name, truth in batch.truths.items()},
        )


def _is_labelled(item: Item) -> dict[str, bool]:
    """Return whether the example has targets for each head, and from a teacher."""
    targets, labels = item.targets, item.labelled.labels
    tokens = (targets.window_class >= 0).any() or (targets.token_supported >= 0).any()
    verdict = targets.adherent >= 0 and targets.token_supported.size > 0
    relevance = (targets.relevant >= 0).any() or labels.relevance is not None
    utilization = (targets.utilized >= 0).any() or labels.utilization is not None
    has_labels = {"support": tokens or verdict, "relevance": relevance, "utilization": utilization}
    has_labels["evidence"] = any(evidence.contexts for evidence in labels.evidence or ())
    has_labels["teacher"] = True  # a teacher has targets for every example
    return {head: bool(known) for head, known in has_labels.items()}


def count_labelled(items: Iterable[Item]) -> Counter[str]:
    """Return the number of examples with targets for each head, and from a teacher."""
    counts = Counter(support=0, relevance=0, utilization=0, evidence=0, teacher=0)
    for item in items:
        counts.update(_is_labelled(item))
    return counts


def collate_items(
    items: Sequence[Item], pad: int, mean_labelled: Mapping[str, float] | None = None
) -> Batch:
    """Pad and stack items into one batch of tensors, by default the only one of its epoch."""
    windows = collate([item.layout for item in items], pad)
    shape = (*windows.response_at.shape, windows.context_at.shape[1])
    targets = collate_labels([item.targets for item in items], shape)
    rows = [item.labelled for item in items]
    opposites = right_and_wrong(rows, targets.adherent.tolist())
    labels = [evidence_labels(item.labelled, item.tokenized) for item in items]
    pairs = collate_pairs([item.layout for item in items], labels, windows.input_ids.shape[1])
    is_evidence = torch.zeros(shape[0], shape[2], dtype=torch.bool)
    for b, item in enumerate(items):
        # The last copies of an example's tokens, if any, are in evidence windows.
        last = item.layout.response_row.shape[1] - 1
        is_evidence[b, last] = bool(item.layout.row_is_evidence.any())
    return Batch(
        windows=Windows(*map(torch.from_numpy, windows)),
        is_evidence=is_evidence,
        targets=Targets(*map(torch.from_numpy, targets)),
        pairs=EvidencePairs(*map(torch.from_numpy, pairs)),
        truths=truths(rows),
        opposites=torch.tensor(opposites, dtype=torch.int64).reshape(-1, 2),
        examples=rows,
        mean_labelled=count_labelled(items) if mean_labelled is None else mean_labelled,
    )


def _collate(
    items: Sequence[Item], pad: int, labelled: Mapping[str, float], batches: WindowBatches
) -> Batch:
    means = {head: count / batches.epoch_batches for head, count in labelled.items()}
    return collate_items(items, pad, means)


def truths(examples: Sequence[LabelledExample]) -> dict[str, Tensor]:
    """Return labels of the examples as numbers, NaN if unknown. *Shape of each:* [B]."""

    def column(values: Sequence[float | None]) -> Tensor:
        return torch.tensor([float("nan") if value is None else float(value) for value in values])

    labels = [example.labels for example in examples]
    return {
        name: column([getattr(label, name) for label in labels])
        for name in ("adherent", "relevance", "utilization")
    }
