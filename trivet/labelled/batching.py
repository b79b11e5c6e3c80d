"""Batches filled by windows, and the share of each device."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
from torch.utils.data import Sampler

from trivet.data.tokenization import IntArray
from trivet.data.windows import Layout
from trivet.errors import ConfigError
from trivet.labelled.pairs import batch_units
from trivet.records import LabelledExample

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


def balance_batches(
    batches: list[list[int]], windows: IntArray, widths: IntArray, world: int, seed: int, epoch: int
) -> list[list[int]]:
    """Group batches into steps of ``world`` devices with nearly equal windows, in random order.

    The devices of a step wait for the one with the most windows. So batches of like size form a
    step, and next to an example that exceeds the budget the other devices read several batches. The
    last step is filled by halves of batches. Examples are repeated only if they are too few.
    """

    def size(batch: list[int]) -> tuple[int, int]:
        return int(windows[batch].sum()), int(widths[batch].max())

    remaining = sorted((list(batch) for batch in batches), key=size)
    counts = [size(batch)[0] for batch in remaining]
    steps: list[list[list[int]]] = []
    while remaining:
        step, remaining = remaining[-world:], remaining[:-world]
        (*held, most), counts = counts[-world:], counts[:-world]
        for batch, own in zip(step, held, strict=False):
            while fit := bisect_right(counts, most - own):
                batch += remaining.pop(fit - 1)
                own += counts.pop(fit - 1)
        steps.append(step)
    last = steps[-1]
    while len(last) < world:
        several = [batch for batch in last if len(batch) > 1] or itertools.chain(*steps)
        largest = max(several, key=len)
        last.append(largest[1::2] or largest[:])
        del largest[1::2]
    order = np.random.default_rng((seed, epoch, world)).permutation(len(steps))
    return [batch for step in order for batch in steps[step]]


def draw_rows(windows: IntArray, draws: npt.NDArray[np.float64], seed: int, epoch: int) -> IntArray:
    """Return the rows that an epoch shows, each ``draws`` times in the mean over epochs.

    Rows of equal ``draws`` and equal number of windows form a stratum. It gives the same number of
    rows in every epoch, and all of its rows in turn before any of them again.
    """
    if (draws == 1).all():
        return np.arange(len(windows))
    chosen = []
    for share in np.unique(draws).tolist():
        for count in np.unique(windows[draws == share]).tolist():
            rows = np.flatnonzero((draws == share) & (windows == count))
            most = max(1, round(share * len(rows)))
            rounds = range(epoch * most // len(rows), -(-(epoch + 1) * most // len(rows)))
            shuffled = [
                np.random.default_rng((seed, len(rows), count, each)).permutation(rows)
                for each in rounds
            ]
            first = epoch * most - rounds.start * len(rows)
            chosen.append(np.concatenate(shuffled)[first : first + most])
    return np.concatenate(chosen)


class WindowBatches(Sampler[list[int]]):
    """Sampler of ``fill_batches``; after a resume it continues where the run had stopped.

    With several devices, each reads every ``world``-th batch from its rank on. With a seed (for
    training) all read the same number, because they step together, and each example once. Without
    a seed (for validation) every example is read exactly once too, but numbers may differ.
    ``examples`` tell for training how often an epoch shows each (``draw_rows``), and which share a
    batch (``batch_units``); without them each is shown once.
    """

    def __init__(
        self,
        layouts: Iterable[Layout],
        budget: int,
        seed: int | None,
        examples: Sequence[LabelledExample] = (),
    ) -> None:
        sizes = [(len(layout.rows), max(map(len, layout.rows))) for layout in layouts]
        self._windows, self._widths = np.asarray(sizes, dtype=np.int64).reshape(-1, 2).T
        # The examples are read after the layouts, which may fill them.
        self._units = (
            [(row,) for row in range(len(sizes))]
            if seed is None or not examples
            else batch_units(examples)
        )
        self._unit_windows = np.asarray([self._windows[[*unit]].sum() for unit in self._units])
        self._unit_widths = np.asarray([self._widths[[*unit]].max() for unit in self._units])
        draws = [examples[unit[0]].draws if examples else 1.0 for unit in self._units]
        self._draws = np.asarray(draws)
        self._budget = budget
        self.seed = seed
        self.epoch = 0
        self._skip = 0
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

    @property
    def skipped(self) -> int:
        """Number of batches that the next epoch leaves out."""
        return self._skip

    def _batches(self) -> list[list[int]]:
        sizes = self._windows, self._widths
        windows, widths = self._unit_windows, self._unit_widths
        drawn = np.arange(len(self._units))
        if self.seed is not None:
            drawn = draw_rows(windows, self._draws, self.seed, self.epoch)
        filled = fill_batches(windows[drawn], widths[drawn], self._budget, self.seed, self.epoch)
        batches = [[row for unit in drawn[batch] for row in self._units[unit]] for batch in filled]
        if self.seed is not None and self._world > 1:
            batches = balance_batches(batches, *sizes, self._world, self.seed, self.epoch)
        elif len(batches) < self._world:
            batches = fill_batches(*sizes, 1, self.seed)  # one example each is enough for all
        return batches[self._rank :: self._world]

    @property
    def epoch_batches(self) -> int:
        """Number of training batches in an epoch, over all devices."""
        return self._length * self._world

    def __iter__(self) -> Iterator[list[int]]:
        # Lightning creates the iterator before it sets the epoch, so this must be a generator.
        first, self._skip = self._skip, 0
        yield from self._batches()[first:]

    def __len__(self) -> int:
        return self._length
