"""Share of the time that no device of a step waits, and the weight of a row by its windows.

python -m benchmarks.rank_balance --data ragbench:data/ragbench [--data SPEC ...] [--split fit]

Counts windows only: nothing is trained, and no GPU is needed. Efficiency is the sum of windows over
the devices' number times the most windows of a device, step by step. "Dealt in turn" and "mean of
the batch" are what training did before 2026-11-23.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.report import Table
from trivet.backends.loading import load_tokenizer
from trivet.bundle.bundle import read_bundle
from trivet.bundle.hub import EMBEDDED_BUNDLE
from trivet.data.labelled.batching import WindowBatches, fill_batches
from trivet.data.labelled.datamodule import Item, RagData, prepare
from trivet.data.labelled.sources import load_source
from trivet.data.tokenization import IntArray
from trivet.data.windows import WindowSettings

Steps = list[list[list[int]]]  # examples by step and device
_BUCKETS = ((1, 1), (2, 2), (3, 4), (5, 8), (9, sys.maxsize))  # windows of a row


def dealt_in_turn(batches: list[list[int]], world: int) -> Steps:
    """Return the steps in which each device reads every ``world``-th batch."""
    count = -(-len(batches) // world)
    batches = (batches * world)[: count * world]
    return [batches[step * world : (step + 1) * world] for step in range(count)]


def balanced(items: Sequence[Item], budget: int, world: int) -> Steps:
    """Return the steps of a training epoch."""
    ranks = []
    for rank in range(world):
        batches = WindowBatches([item.layout for item in items], budget, seed=0)
        batches.share(rank, world)
        ranks.append(list(batches))
    return [list(step) for step in zip(*ranks, strict=True)]


def efficiency(steps: Steps, windows: IntArray, widths: IntArray | None = None) -> float:
    """Return the sum of windows over the devices' number times the most windows of each step.

    With the widths of examples, positions are counted instead; windows are padded in a batch.
    """
    padded = (lambda batch: 1) if widths is None else (lambda batch: widths[batch].max())
    costs = np.asarray([[windows[b].sum() * padded(b) for b in step] for step in steps])
    return float(costs.sum() / (costs.max(axis=1).sum() * costs.shape[1]))


def balance_table(items: Sequence[Item], budget: int) -> Table:
    """Return steps and efficiency for several numbers of devices."""
    windows = np.asarray([len(item.layout.rows) for item in items])
    widths = np.asarray([max(map(len, item.layout.rows)) for item in items])
    batches = fill_batches(windows, widths, budget, seed=0)
    rows = []
    for world in (2, 4, 8):
        for name, steps in (
            ("dealt in turn", dealt_in_turn(batches, world)),
            ("balanced", balanced(items, budget, world)),
        ):
            shares = (efficiency(steps, windows), efficiency(steps, windows, widths))
            rows.append((world, name, len(steps), *(f"{share:.3f}" for share in shares)))
    title = f"{len(items)} rows of {windows.sum()} windows, {budget} windows a batch"
    return Table(title, ("devices", "batches", "steps", "by windows", "by positions"), rows)


def weight_table(items: Sequence[Item], budget: int, pad: int) -> Table:
    """Return the mean weight of a row in the support loss of its batch, by its windows."""
    windows = np.asarray([len(item.layout.rows) for item in items])
    loader = RagData(items, items, pad, budget, seed=0).train_dataloader()
    old, new = np.zeros(len(items)), np.zeros(len(items))
    for indices, batch in zip(list(loader.batches), loader, strict=True):
        old[indices] = 1 / len(indices)
        new[indices] = 1 / max(1.0, batch.mean_labelled["support"])
    one = windows == 1
    rows = []
    for low, high in _BUCKETS:
        here = (windows >= low) & (windows <= high)
        if here.any():
            name = str(low) if low == high else f"{low} to {high}" if high < sys.maxsize else "more"
            ratios = (each[here].mean() / each[one].mean() for each in (old, new))
            rows.append((name, int(here.sum()), *(f"{ratio:.2f}" for ratio in ratios)))
    title = "Weight of a row relative to a row of one window"
    return Table(title, ("windows", "rows", "mean of the batch", "mean of the epoch"), rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both tables."""
    flags = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    flags.add_argument("--data", action="append", required=True, help="such as ragbench:DIR")
    flags.add_argument("--split", default="fit")
    flags.add_argument("--bundle", type=Path, default=EMBEDDED_BUNDLE)
    flags.add_argument("--size", type=int, help="tokens of a window; default: the bundle's")
    flags.add_argument("--batch-windows", type=int, default=16)
    given = flags.parse_args(arguments)
    bundle = read_bundle(given.bundle)
    tokenizer = load_tokenizer(bundle)
    settings = WindowSettings(given.size or bundle.info.window.size)
    examples = [row for spec in given.data for row in load_source(spec, given.split)[0]]
    items = prepare(examples, tokenizer, settings)
    print(balance_table(items, given.batch_windows).to_markdown(), end="\n\n")
    print(weight_table(items, given.batch_windows, tokenizer.special.pad).to_markdown())


if __name__ == "__main__":
    main()
