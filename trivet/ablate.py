"""Ablations: run the unfinished runs of a grid, continue interrupted ones, skip finished ones."""

from __future__ import annotations

import functools
import logging
import multiprocessing
import os
import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess

import torch

from trivet.ablation.grid import Grid, MeasuredRows, Run
from trivet.ablation.run import BEGUN, Rows, finish, state_of
from trivet.ablation.scores import load_rows
from trivet.data.labelled.sources import load_source
from trivet.records import ConfigError
from trivet.train import load_training_rows

logger = logging.getLogger(__name__)

LOG = "run.log"


@dataclass(frozen=True)
class Failure:
    """A failed run and the reason."""

    run: Run
    reason: str


def ablate(
    grid: Grid, jobs: int = 1, replace_changed: bool = False, command: str = "trivet ablate"
) -> list[Failure]:
    """Finish every run of a grid, and return those that failed.

    Args:
        grid: Grid.
        jobs: Number of parallel runs; above one, each is a process that logs to ``run.log``.
        replace_changed: Whether to remove and repeat runs of another configuration.
        command: Command line, recorded in every bundle.

    Raises:
        ConfigError: Runs were begun with another configuration (the message names all), or test
            rows have groups that a run is trained on.
        DataError: A source cannot be read.
    """
    left = _unfinished(grid, replace_changed)
    logger.info("%d runs, %d of them finished before", len(grid.runs), len(grid.runs) - len(left))
    if not left:
        return []
    rows = load_rows(grid.test)
    _refuse_taught_groups(left, rows)
    if jobs > 1 and len(left) > 1:
        return list(_in_processes(grid, left, jobs, command))
    return list(_one_by_one(grid, left, rows, command))


def _unfinished(grid: Grid, replace_changed: bool) -> list[Run]:
    left, changed, refused = [], [], []
    for run in grid.runs:
        try:
            if state_of(run, grid.test) != "finished":
                left.append(run)
        except ConfigError as error:
            if replace_changed and (run.folder / BEGUN).exists():
                left.append(run)
                changed.append(run)
            else:
                refused.append(str(error))
    if refused:
        raise ConfigError("\n".join(refused))
    for run in changed:
        logger.warning("%s: removed, since its configuration changed", run.name)
        shutil.rmtree(run.folder)
    return left


def _refuse_taught_groups(runs: Sequence[Run], rows: Rows) -> None:
    """Refuse test rows of source documents that a run is trained on in spite of ``data.test``."""
    measured = {(one.source, one.group) for label in rows for one in rows[label]}
    load = functools.cache(load_source)
    checked: set[str] = set()
    for run in runs:
        if (data := f"{run.config.data} {run.seed}") in checked:
            continue
        checked.add(data)
        trained = load_training_rows(run.config, load)[0]
        shared = sorted({(one.source, one.group) for one in trained} & measured)
        if shared:
            name, group = shared[0]
            raise ConfigError(
                f"{run.name}: {len(shared)} groups of the test rows are trained on, first "
                f"{group!r} of {name}; name the test rows in data.test, which leaves their groups "
                "out of training, or measure on another split"
            )


def _one_by_one(grid: Grid, runs: Sequence[Run], rows: Rows, command: str) -> Iterator[Failure]:
    for run in runs:
        try:
            finish(run, grid.test, rows, grid.keep_checkpoints, command=command)
        except Exception as error:  # the other runs continue
            logger.error("%s failed: %s", run.name, error, exc_info=True)
            yield Failure(run, f"{type(error).__name__}: {error}")


def _in_processes(grid: Grid, runs: Sequence[Run], jobs: int, command: str) -> Iterator[Failure]:
    """Run each in a new process, at most ``jobs`` at a time."""
    context = multiprocessing.get_context("spawn")  # CUDA and thread pools do not survive a fork
    waiting, going = list(runs), dict[int, tuple[SpawnProcess, Run]]()
    try:
        while waiting or going:
            while waiting and len(going) < jobs:
                run = waiting.pop(0)
                arguments = (run, grid.test, grid.keep_checkpoints, jobs, command)
                process = context.Process(target=_work, args=arguments, name=run.name)
                process.start()
                logger.info("%s: process %d", run.name, process.pid)
                going[process.sentinel] = (process, run)
            for sentinel in wait(list(going)):
                assert isinstance(sentinel, int)
                process, run = going.pop(sentinel)
                process.join()
                if process.exitcode != 0:
                    reason = f"its process ended with {process.exitcode}; see {run.folder / LOG}"
                    logger.error("%s failed: %s", run.name, reason)
                    yield Failure(run, reason)
    finally:
        for process, _ in going.values():
            process.terminate()


def _work(
    run: Run, tests: tuple[MeasuredRows, ...], keep_checkpoints: bool, jobs: int, command: str
) -> None:
    """Finish one run in this process, with its output in its log."""
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    run.folder.mkdir(parents=True, exist_ok=True)
    log = os.open(run.folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("trivet").setLevel(logging.INFO)
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // jobs))
    try:
        finish(run, tests, None, keep_checkpoints, jobs, command)
    except Exception:
        logger.exception("%s failed", run.name)
        sys.exit(1)


def _end_with_the_parent() -> None:
    """Exit with the parent, even if it is killed: two processes must not share a run's folder."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
