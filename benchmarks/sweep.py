"""Window length x windows a call x engine and precision: milliseconds a window.

python -m benchmarks.sweep [--bundle DIR] [--lengths 128 256 384 512] [--batches 1 2 4 8]

An engine that likes several calls at once has one in each worker, and a call's share of the time is
what counts. The second table has each engine's speed over torch's scaled-dot-product attention in
fp32, both at the number of windows a call that suits each best.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.engines import ENGINES, FullEngine, about_weights, load_engine, vocabulary_of
from benchmarks.inputs import full_windows
from benchmarks.report import Table, parser, publish, skipped, spread
from benchmarks.timing import Contender, Race, Run, race
from trivet.data.windows import Windows


def build(folder: Path, engine: str, threads: int, vocabulary: int) -> Run:
    """Return what runs ``(length, windows)`` of a case on one engine, once in every worker."""
    full = FullEngine(load_engine(folder, engine, threads)[1])
    made: dict[Any, Windows] = {}

    def work(case: tuple[int, int]) -> Mapping[str, float]:
        length, count = case
        if case not in made:
            made[case] = full_windows(count, length, vocabulary)
        began = time.perf_counter()
        full.run([made[case]] * full.workers)
        return {"total": (time.perf_counter() - began) / full.workers}

    return work


def speeds(outcome: Race, engines: Sequence[str], lengths: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return a row a length: every engine's speed over ``torch``, each at its best batch."""
    best: dict[tuple[str, int], float] = {}
    for (engine, case), measured in outcome.measured.items():
        assert isinstance(case, tuple)
        length, count = case
        seconds = measured.median() / count
        best[engine, length] = min(seconds, best.get((engine, length), seconds))
    if "torch" not in engines or ("torch", lengths[0]) not in best:
        return []
    return [
        (length, *(f"{best['torch', length] / best[engine, length]:.2f}" for engine in engines))
        for length in lengths
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Time every engine on every length and batch."""
    flags = parser(__doc__, repeats=7)
    flags.add_argument("--lengths", type=int, nargs="+", default=[128, 256, 384, 512])
    flags.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4, 8])
    flags.add_argument("--backends", nargs="+", choices=ENGINES, default=list(ENGINES))
    given = flags.parse_args(arguments)
    vocabulary = vocabulary_of(given.bundle)
    contenders = [
        Contender(engine, build, (given.bundle, engine, given.threads, vocabulary))
        for engine in given.backends
    ]
    cases = [(length, count) for length in given.lengths for count in given.batches]
    outcome = race(contenders, given.repeats, cases)
    ran = [engine for engine in given.backends if engine not in outcome.skipped]
    rows: list[tuple[Any, ...]] = []
    for length, count in cases:
        measured = [outcome.measured[engine, (length, count)] for engine in ran]
        each = ([1000 * value / count for value in one.seconds()] for one in measured)
        rows.append((length, count, *(spread(values, 1) for values in each)))
    publish(
        "sweep",
        [
            Table(
                "Milliseconds a window, median (least to most):",
                ("positions", "windows a call", *ran),
                rows,
            ),
            Table(
                "Speed over torch, each at its best number of windows a call:",
                ("positions", *ran),
                speeds(outcome, ran, given.lengths),
            ),
            about_weights(given.bundle, given.backends),
            skipped(outcome),
        ],
        given,
    )
    return 0 if ran else 1


if __name__ == "__main__":
    sys.exit(main())
