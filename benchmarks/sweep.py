"""Milliseconds a window, by window length, windows a call, backend and precision.

python -m benchmarks.sweep [--bundle DIR] [--lengths 128 256 384 512] [--batches 1 2 4 8]

A backend with several workers runs one call in each at once; a call's share of the time counts. The
second table compares each backend with torch, both at their best number of windows a call.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.backends import BACKENDS, BareBackend, about_weights, load_named, tokenizer_of
from benchmarks.inputs import full_windows
from benchmarks.report import Table, parser, publish, skipped, spread
from benchmarks.timing import Contender, Run, race


def build(folder: Path, name: str, threads: int) -> Run:
    """Return a ``Run`` of one call in every worker; its case is ``(length, windows)``."""
    bare = BareBackend(load_named(folder, name, threads)[1])
    make = functools.cache(full_windows)
    vocabulary = tokenizer_of(folder).vocab_size

    def work(case: tuple[int, int]) -> Mapping[str, float]:
        length, count = case
        windows = make(count, length, vocabulary)
        began = time.perf_counter()
        bare.run([windows] * bare.workers)
        return {"total": (time.perf_counter() - began) / bare.workers}

    return work


def main(arguments: Sequence[str] | None = None) -> int:
    """Time every backend on every length and batch."""
    flags = parser(__doc__, repeats=7)
    flags.add_argument("--lengths", type=int, nargs="+", default=[128, 256, 384, 512])
    flags.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4, 8])
    flags.add_argument("--backends", nargs="+", choices=BACKENDS, default=list(BACKENDS))
    given = flags.parse_args(arguments)
    contenders = [
        Contender(name, build, (given.bundle, name, given.threads)) for name in given.backends
    ]
    cases = [(length, count) for length in given.lengths for count in given.batches]
    outcome = race(contenders, given.repeats, cases)
    ran = [name for name in given.backends if name not in outcome.skipped]
    rows = []
    for length, count in cases:
        measured = [outcome.measured[name, (length, count)] for name in ran]
        each = ([1000 * value / count for value in one.seconds()] for one in measured)
        rows.append((length, count, *(spread(values, 1) for values in each)))

    def best(name: str, length: int) -> float:
        return min(outcome.measured[name, (length, n)].median() / n for n in given.batches)

    speeds = [
        (length, *(f"{best('torch', length) / best(name, length):.2f}" for name in ran))
        for length in (given.lengths if "torch" in ran else [])
    ]
    title = "Milliseconds a window, median (least to most):"
    over = "Speed over torch, each at its best number of windows a call:"
    publish(
        "sweep",
        [
            Table(title, ("positions", "windows a call", *ran), rows),
            Table(over, ("positions", *ran), speeds),
            about_weights(given.bundle, given.backends),
            skipped(outcome),
        ],
        given,
    )
    return 0 if ran else 1


if __name__ == "__main__":
    sys.exit(main())
