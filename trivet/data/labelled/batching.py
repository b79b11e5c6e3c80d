"""Batches filled by windows, and the share of each device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from torch.utils.data import Sampler

from trivet.data.tokenization import IntArray
from trivet.data.windows import Layout
from trivet.records import ConfigError

_SHUFFLED_TOGETHER = 16  # batches; examples are shuffled within as many as these hold


def fill_batches(
    windows: IntArray, widths: IntArray, budget: int, seed: int | None, epoch: int = 0
) -> list[list[int]]:
    """Group examples of similar length into batches of at most ``budget`` windows.

    Takes the number of windows and the longest row of each example. An example with more windows
    than the budget gets its own batch. The order depends only on (seed, epoch);
    without a seed the examples are sorted by length. Examples change places only with others of as
    many windows, so every epoch has the same number of batches, which schedules rely on.
    """
    order = np.lexsort((widths, windows))
    random = None if seed is None else np.random.default_rng((seed, epoch))
    if random is not None:
        first_of_count = np.flatnonzero(np.diff(windows[order], prepend=-1))
        for run in np.split(order, first_of_count):
            for first in range(0, len(run), _SHUFFLED_TOGETHER * budget):
                random.shuffle(run[first : first + _SHUFFLED_TOGETHER * budget])
    batches: list[list[int]] = []
    held = budget  # the first example opens a batch
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
    """Sampler of ``fill_batches``; after a resume it continues where the run had stopped.

    With several devices, each reads every ``world``-th batch from its rank on. With a seed (for
    training) all read the same number, because they step together: the last ones repeat batches
    from the front. Without a seed (for validation) every example is read exactly once.
    """

    def __init__(self, layouts: Sequence[Layout], budget: int, seed: int | None) -> None:
        self._windows = np.asarray([len(layout.rows) for layout in layouts], dtype=np.int64)
        widths = [max(map(len, layout.rows)) for layout in layouts]
        self._widths = np.asarray(widths, dtype=np.int64)
        self._budget = budget
        self.seed = seed
        self.epoch = 0
        self._skip = 0
        self.given = 0
        self.share(0, 1)

    def share(self, rank: int, world: int) -> None:
        """Set the index of the device whose share is read, and the number of devices.

        Raises:
            ConfigError: A device would have no validation example, and the others wait forever.
        """
        if self.seed is None and len(self._windows) < world:
            raise ConfigError(
                f"run.devices ({world}): only {len(self._windows)} examples of dev to share among "
                "them; give more, or fewer devices"
            )
        self._rank, self._world = rank, world
        self._length = len(self._batches())

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the shuffle; Lightning calls this before each epoch."""
        self.epoch = epoch

    def resume(self, given: int) -> None:
        """Skip the first ``given`` batches of the next epoch; if that is all, start a new one."""
        self._skip = given if given < self._length else 0

    def _batches(self) -> list[list[int]]:
        sizes = self._windows, self._widths
        batches = fill_batches(*sizes, self._budget, self.seed, self.epoch)
        if self.seed is not None:
            rounds = -(-len(batches) // self._world)
            batches = [batches[place % len(batches)] for place in range(rounds * self._world)]
        elif len(batches) < self._world:
            batches = fill_batches(*sizes, 1, self.seed)  # one example each is enough for all
        return batches[self._rank :: self._world]

    def __iter__(self) -> Iterator[list[int]]:
        # Lightning creates the iterator before it sets the epoch, so this must be a generator.
        self.given, self._skip = self._skip, 0
        for batch in self._batches()[self.given :]:
            self.given += 1
            yield batch

    def __len__(self) -> int:
        return self._length
