"""Which examples are read together: batches filled by windows, and each device's share of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from torch.utils.data import Sampler

from trivet.data.segment_tokenizer import IntArray
from trivet.data.windows import Layout
from trivet.records import ConfigError

_SHUFFLED_TOGETHER = 16  # batches' worth of examples of like length that change places


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
    """Yields ``fill_batches`` of its epoch; after a resume, from where the run had stopped.

    Of several devices each reads its own share: every ``world``-th batch, from its rank on. With a
    seed, to train, all read the same number, for they step together: the last ones read batches
    from the front again. Without a seed, to judge, every example is read exactly once, and some
    devices may read a batch less.

    Args:
        layouts: The examples, cut.
        budget: Windows in a batch.
        seed: Of the shuffle; without one the examples are sorted by length.
        rank: Of this device, from 0.
        world: How many devices there are.

    Raises:
        ConfigError: There are fewer examples to judge than devices: one would have nothing to do,
            and the others would wait for it.
    """

    def __init__(
        self,
        layouts: Sequence[Layout],
        budget: int,
        seed: int | None,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self._windows = np.asarray([len(layout.rows) for layout in layouts], dtype=np.int64)
        self._widths = np.asarray(
            [max(len(row) for row in layout.rows) for layout in layouts], dtype=np.int64
        )
        self._budget = budget
        self.seed = seed
        self.epoch = 0
        self._skip = 0
        self.given = 0
        self.share(rank, world)

    def share(self, rank: int, world: int) -> None:
        """Read the share of one of ``world`` devices from now on."""
        if self.seed is None and len(self._windows) < world:
            raise ConfigError(
                f"run.devices ({world}): only {len(self._windows)} examples of dev to share among "
                "them; give more, or fewer devices"
            )
        self._rank, self._world = rank, world
        self._length = len(self._batches())

    def set_epoch(self, epoch: int) -> None:
        """Choose the shuffle; Lightning calls this before each epoch."""
        self.epoch = epoch

    def resume(self, given: int) -> None:
        """Begin the next epoch behind its first ``given`` batches; at its end, begin anew."""
        self._skip = given if given < self._length else 0

    def _batches(self) -> list[list[int]]:
        sizes = self._windows, self._widths
        batches = fill_batches(*sizes, self._budget, self.seed, self.epoch)
        if self.seed is not None:
            rounds = -(-len(batches) // self._world)
            batches = [batches[place % len(batches)] for place in range(rounds * self._world)]
        elif len(batches) < self._world:
            batches = fill_batches(*sizes, 1, self.seed)  # one example each: enough for all
        return batches[self._rank :: self._world]

    def __iter__(self) -> Iterator[list[int]]:
        # Lightning makes the iterator before it sets the epoch: nothing may run before the first.
        self.given, self._skip = self._skip, 0
        for batch in self._batches()[self.given :]:
            self.given += 1
            yield batch

    def __len__(self) -> int:
        return self._length
