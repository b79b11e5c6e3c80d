"""Several contenders in one run: each in a process of its own, all taking turns.

Taking turns lets whatever else the machine does hit every contender alike, so that ratios hold
where seconds do not. Processes of their own keep one engine's waiting threads and freed memory out
of another's time, and let glibc be told, before it starts, to keep its memory: torch is up to twice
as slow without, which no ratio here shall profit from.
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
from typing import Any, TypeVar

from trivet.records import BackendError, BundleError, ConfigError

ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "8589934592"}

Run = Callable[[Any], Mapping[str, float]]
"""One repetition of a case: seconds by stage, ``total`` among them."""

_Answer = TypeVar("_Answer")

# Why a contender may be missing: no such graph or extra; the others race without it.
_MISSING = (BundleError, ConfigError, BackendError, ImportError)


@dataclass(frozen=True)
class Contender:
    """What is timed.

    Attributes:
        name: As it stands in the table.
        build: Called once in the contender's own process, a function of a module; returns what
            runs a case.
        arguments: Of ``build``.
    """

    name: str
    build: Callable[..., Run]
    arguments: tuple[Any, ...] = ()


@dataclass
class Measured:
    """What one contender did on one case.

    Attributes:
        samples: Seconds by stage, one mapping a repetition, without the warm-up.
        peak_mb: The most memory its process had held by then, in MB of 10^6 bytes.
    """

    samples: list[Mapping[str, float]] = field(default_factory=list)
    peak_mb: float = 0.0

    def seconds(self, stage: str = "total") -> list[float]:
        """Return every repetition's seconds in a stage, in the order of the rounds."""
        return [sample[stage] for sample in self.samples]

    def median(self, stage: str = "total") -> float:
        """Return the median seconds of a stage."""
        return statistics.median(self.seconds(stage))


@dataclass
class Race:
    """The outcome.

    Attributes:
        measured: By contender and case.
        skipped: Why a contender did not run, by its name.
    """

    measured: dict[tuple[str, Hashable], Measured] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def ratios(self, slow: str, fast: str, case: Hashable = None) -> list[float]:
        """Return how many times as long ``slow`` took as ``fast``, round by round."""
        pairs = zip(
            self.measured[slow, case].seconds(), self.measured[fast, case].seconds(), strict=True
        )
        return [one / other for one, other in pairs]


def race(
    contenders: Sequence[Contender],
    repeats: int,
    cases: Sequence[Hashable] = (None,),
    warm_up: Sequence[Hashable] | None = None,
) -> Race:
    """Time every contender on every case, in turns.

    Args:
        contenders: Their names differ.
        repeats: Rounds that count.
        cases: What a contender's ``Run`` is called with, one after the other.
        warm_up: What runs first and is not counted; ``None`` is every case once.

    Raises:
        EOFError: A contender's process died; its own error stands above.
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


def apart(work: Callable[..., _Answer], *arguments: object) -> _Answer:
    """Call a function of a module in a process of its own, whose memory goes when it ends."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, *arguments).result()


def timed(work: Callable[[Any], object]) -> Run:
    """Return a ``Run`` that takes the time of ``work``."""

    def run(case: Any) -> Mapping[str, float]:
        started = time.perf_counter()
        work(case)
        return {"total": time.perf_counter() - started}

    return run


def cores() -> int:
    """Return how many cores this process may use."""
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable else os.cpu_count() or 1


def peak_memory_mb() -> float:
    """Return the most memory this process has held, in MB of 10^6 bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 1e6


def _ask(worker: Connection, case: Hashable) -> tuple[Mapping[str, float], float]:
    worker.send(case)
    sample, peak_mb = worker.recv()
    return sample, peak_mb


@contextlib.contextmanager
def _process(contender: Contender) -> Iterator[Connection]:
    """Start a contender's process and end it; yield the way to it."""
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


def _serve(way: Connection, contender: Contender) -> None:
    """Run cases until nobody asks any more."""
    try:
        run = contender.build(*contender.arguments)
    except _MISSING as error:
        way.send(f"{error}")
        return
    way.send(None)
    with contextlib.suppress(EOFError):
        while True:
            sample = dict(run(way.recv()))
            way.send((sample, peak_memory_mb()))
