"""Races: contenders run in processes of their own and take turns, so that ratios hold.

Load from elsewhere then hits every contender alike, and no contender's waiting threads or freed
memory slow another one. glibc is told to keep its memory, because torch is up to twice as slow
without, and no ratio should profit from that.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, ParamSpec, TypeVar

from trivet.errors import BackendError, BundleError, ConfigError

ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "8589934592"}

Run = Callable[[Any], Mapping[str, float]]
"""One repetition of a case; returns seconds by stage, ``total`` among them."""

P = ParamSpec("P")
T = TypeVar("T")

# Errors of a contender without its graph or extra; the others race without it.
_MISSING = (BundleError, ConfigError, BackendError, ImportError)


@dataclass(frozen=True)
class Contender:
    """One row of a benchmark's table.

    Attributes:
        name: Name in the table.
        build: Module-level function, called once in the contender's process; returns its ``Run``.
        arguments: Arguments for ``build``.
    """

    name: str
    build: Callable[..., Run]
    arguments: tuple[Any, ...] = ()


@dataclass
class Measured:
    """Samples of one contender on one case.

    Attributes:
        samples: Seconds by stage, one mapping a round, without the warm-up.
        peak_mb: Peak memory of the process so far, in MB (10^6 bytes).
    """

    samples: list[Mapping[str, float]] = field(default_factory=list)
    peak_mb: float = 0.0

    def seconds(self, stage: str = "total") -> list[float]:
        """Return the seconds of a stage, round by round."""
        return [sample[stage] for sample in self.samples]

    def median(self, stage: str = "total") -> float:
        """Return the median seconds of a stage."""
        return statistics.median(self.seconds(stage))


@dataclass
class Race:
    """Outcome of a race.

    Attributes:
        measured: Samples by contender and case.
        skipped: Reason why a contender did not run, by its name.
    """

    measured: dict[tuple[str, Hashable], Measured] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def ratios(self, slow: str, fast: str) -> list[float]:
        """Return the time of ``slow`` divided by that of ``fast``, round by round."""
        pairs = zip(
            self.measured[slow, None].seconds(), self.measured[fast, None].seconds(), strict=True
        )
        return [first / other for first, other in pairs]


def race(
    contenders: Sequence[Contender],
    repeats: int,
    cases: Sequence[Hashable] = (None,),
    warm_up: Sequence[Hashable] | None = None,
) -> Race:
    """Time every contender on every case, in turns.

    Args:
        contenders: Contenders with distinct names.
        repeats: Number of counted rounds.
        cases: Arguments of each contender's ``Run``.
        warm_up: Cases that run first and are not counted; ``None`` runs every case once.

    Raises:
        EOFError: A contender's process died; its own traceback is above.
    """
    with contextlib.ExitStack() as processes:
        outcome = Race()
        workers: dict[str, Connection] = {}
        for contender in contenders:
            worker = processes.enter_context(_process(contender))
            refusal = worker.recv()
            if refusal is None:
                workers[contender.name] = worker
            else:
                outcome.skipped[contender.name] = refusal
        for case in cases if warm_up is None else warm_up:
            for worker in workers.values():
                _ask(worker, case)
        for _ in range(repeats):
            for case in cases:
                for name, worker in workers.items():
                    sample, peak_mb = _ask(worker, case)
                    measured = outcome.measured.setdefault((name, case), Measured())
                    measured.samples.append(sample)
                    measured.peak_mb = peak_mb
        return outcome


def in_a_process(work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call a module-level function in a process of its own and return its result."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, *arguments, **named).result()


def timed(work: Callable[[Any], object]) -> Run:
    """Return a ``Run`` that takes the time of ``work``."""

    def run(case: Any) -> Mapping[str, float]:
        started = time.perf_counter()
        work(case)
        return {"total": time.perf_counter() - started}

    return run


def peak_memory_mb() -> float:
    """Return the peak memory of this process in MB (10^6 bytes)."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 1e6


def _ask(worker: Connection, case: Hashable) -> tuple[Mapping[str, float], float]:
    worker.send(case)
    sample, peak_mb = worker.recv()
    return sample, peak_mb


@contextlib.contextmanager
def _process(contender: Contender) -> Iterator[Connection]:
    """Start a contender's process; yield the pipe to it, and end it afterwards."""
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_serve, args=(there, contender), daemon=True)
    before = dict(os.environ)
    os.environ.update(ALLOCATOR)  # glibc reads these when a process starts
    try:
        process.start()
    finally:
        os.environ.clear()
        os.environ.update(before)
    there.close()
    try:
        yield here
    finally:
        here.close()
        process.join()


def _serve(pipe: Connection, contender: Contender) -> None:
    """Run cases until the pipe closes."""
    try:
        run = contender.build(*contender.arguments)
    except _MISSING as error:
        pipe.send(f"{error}")
        return
    pipe.send(None)
    with contextlib.suppress(EOFError):
        while True:
            sample = dict(run(pipe.recv()))
            pipe.send((sample, peak_memory_mb()))
