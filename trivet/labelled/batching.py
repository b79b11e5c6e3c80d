"""Batches filled by windows: mixed for training, sorted by length for judging."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
from torch.utils.data import Sampler

from trivet.data.tokenization import IntArray
from trivet.data.windows import Layout
from trivet.errors import ConfigError
from trivet.labelled.pairs import batch_units
from trivet.records import LabelledExample


def mix_batches(
    windows: IntArray, budget: int, seed: int, epoch: int = 0, world: int = 1
) -> list[list[int]]:
    """Deal examples to batches of about ``budget`` windows each, in random order.

    Takes the number of windows of each example. Every batch gets examples of all lengths and
    sources, since a step that sees one source alone unlearns the others (the encoder sorts the
    windows of a batch by length, ``model.slices.read_in_slices``), and nearly as many windows as
    the others, since the ``world`` devices of a step wait for each other. The number of batches is
    a multiple of ``world`` and the same in every epoch, which schedules rely on. Examples are
    repeated only if they are fewer than devices.
    """
    random = np.random.default_rng((seed, epoch))
    order = random.permutation(len(windows))
    if len(order) < world:
        order = np.resize(order, world)
    order = order[np.argsort(-windows[order], kind="stable")]
    count = min(len(order), -(-int(windows[order].sum()) // budget))
    count += -count % world
    if count > len(order):
        count -= world
    batches: list[list[int]] = [[] for _ in range(count)]
    held = [(0, number) for number in range(count)]  # windows of each batch, the fewest first
    for index in order.tolist():
        size, number = held[0]
        batches[number].append(index)
        heapq.heapreplace(held, (size + int(windows[index]), number))
    return [batches[number] for number in random.permutation(count)]


def sort_batches(windows: IntArray, widths: IntArray, budget: int) -> list[list[int]]:
    """Group examples of similar length into batches of at most ``budget`` windows.

    Takes the number of windows and the longest row of each example. An example with more windows
    than the budget gets its own batch.
    """
    batches: list[list[int]] = []
    held = budget  # the first example opens a batch
    for index in np.lexsort((widths, windows)).tolist():
        if held + windows[index] > budget:
            batches.append([])
            held = 0
        batches[-1].append(index)
        held += int(windows[index])
    return batches


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
            shown = max(1, round(share * len(rows)))
            rounds = range(epoch * shown // len(rows), -(-(epoch + 1) * shown // len(rows)))
            shuffled = [
                np.random.default_rng((seed, len(rows), count, number)).permutation(rows)
                for number in rounds
            ]
            first = epoch * shown - rounds.start * len(rows)
            chosen.append(np.concatenate(shuffled)[first : first + shown])
    return np.concatenate(chosen)


class WindowBatches(Sampler[list[int]]):
    """Sampler of batches; after a resume it continues where the run had stopped.

    With several devices, each reads every ``world``-th batch from its rank on. With a seed (for
    training) batches are mixed (``mix_batches``), and all devices read the same number, because
    they step together. Without a seed (for validation) they are sorted (``sort_batches``), every
    example is read exactly once, and numbers may differ. ``examples`` tell for training how often
    an epoch shows each (``draw_rows``), and which share a batch (``batch_units``); without them
    each is shown once.
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

    def resume(self, count: int) -> None:
        """Skip the first ``count`` batches of the next epoch; if that is all, start a new one."""
        self._skip = count if count < self._length else 0

    @property
    def skipped(self) -> int:
        """Number of batches that the next epoch leaves out."""
        return self._skip

    def _batches(self) -> list[list[int]]:
        if self.seed is None:
            batches = sort_batches(self._windows, self._widths, self._budget)
            if len(batches) < self._world:  # one example each is enough for all
                batches = sort_batches(self._windows, self._widths, 1)
        else:
            drawn = draw_rows(self._unit_windows, self._draws, self.seed, self.epoch)
            mixed = mix_batches(
                self._unit_windows[drawn], self._budget, self.seed, self.epoch, self._world
            )
            batches = [
                [row for unit in drawn[batch] for row in self._units[unit]] for batch in mixed
            ]
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
