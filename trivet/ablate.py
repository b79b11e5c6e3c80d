"""Ablations: run the unfinished runs of a grid, continue interrupted ones, skip finished ones."""

from __future__ import annotations

import functools
import logging
import multiprocessing
import os
import shutil
import signal
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
from trivet.errors import ConfigError
from trivet.labelled.sources import load_source
from trivet.training.training_rows import load_training_rows

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
        jobs: Largest number of parallel runs. Above one, or with several devices a run, each is a
            process that logs to ``run.log`` and has its own GPUs, ``run.devices`` of those that are
            visible; runs wait for free ones.
        replace_changed: Whether to remove and repeat runs of another configuration.
        command: Command line, recorded in every bundle.

    Raises:
        ConfigError: Runs were begun with another configuration (the message names all), test rows
            have groups that a run is trained on, or a run needs more GPUs than are visible.
        DataError: A source cannot be read.
    """
    left = _unfinished(grid, replace_changed)
    logger.info("%d runs, %d of them finished before", len(grid.runs), len(grid.runs) - len(left))
    if not left:
        return []
    rows = load_rows(grid.test)
    _check_held_out(left, rows)
    if (jobs > 1 and len(left) > 1) or any(run.config.run.devices > 1 for run in left):
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


def _check_held_out(runs: Sequence[Run], rows: Rows) -> None:
    """Refuse test rows of source documents that a run is trained on in spite of ``data.test``."""
    measured = {(one.source, one.group) for own in rows.values() for one in own}
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
            finish(run, grid.test, rows, command=command)
        except Exception as error:  # the other runs continue
            logger.error("%s failed: %s", run.name, error, exc_info=True)
            yield Failure(run, f"{type(error).__name__}: {error}")


def _in_processes(grid: Grid, runs: Sequence[Run], jobs: int, command: str) -> Iterator[Failure]:
    """Run each in a new process with GPUs of its own, at most ``jobs`` at a time."""
    context = multiprocessing.get_context("spawn")  # CUDA and thread pools do not survive a fork
    settings = {run.name: run.config.run for run in runs}
    needed = {n: 0 if one.accelerator == "cpu" else one.devices for n, one in settings.items()}
    free = visible_gpus()
    for name, count in needed.items():
        if free and count > len(free):
            raise ConfigError(
                f"{name}: run.devices ({count}) exceeds the {len(free)} visible GPUs; lower it, or "
                "set run.accelerator=cpu"
            )
    if free and jobs * max(needed.values()) > len(free):
        logger.warning("%d GPUs are visible: runs of %d jobs wait for free ones", len(free), jobs)
    limited = bool(free)
    waiting, going = list(runs), dict[int, tuple[SpawnProcess, Run]]()
    held: dict[str, list[str]] = {}
    try:
        while waiting or going:
            while waiting and len(going) < jobs:
                count = needed[waiting[0].name] if limited else 0
                if count > len(free):
                    break
                run = waiting.pop(0)
                held[run.name], free = free[:count], free[count:]
                gpus = held[run.name] if limited else None
                arguments = (run, grid.test, jobs, command, gpus)
                process = context.Process(target=_work, args=arguments, name=run.name)
                process.start()
                logger.info("%s: process %d", run.name, process.pid)
                going[process.sentinel] = (process, run)
            for sentinel in wait(list(going)):
                assert isinstance(sentinel, int)
                process, run = going.pop(sentinel)
                process.join()
                free += held.pop(run.name)
                if process.exitcode != 0:
                    reason = f"its process ended with {process.exitcode}; see {run.folder / LOG}"
                    logger.error("%s failed: %s", run.name, reason)
                    yield Failure(run, reason)
    finally:
        for process, _ in going.values():
            _end_group(process)


def visible_gpus() -> list[str]:
    """Return the GPUs that CUDA shows, as CUDA_VISIBLE_DEVICES names them; none without a GPU."""
    count = torch.cuda.device_count()
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",")[:count] if named else [str(number) for number in range(count)]


def _end_group(process: SpawnProcess) -> None:
    """End a run's process and those it started, such as training on further devices."""
    assert process.pid is not None
    try:
        os.killpg(process.pid, signal.SIGTERM)
    except (AttributeError, ProcessLookupError):  # Windows, or it leads no group yet
        process.terminate()


def _work(
    run: Run,
    tests: tuple[MeasuredRows, ...],
    jobs: int,
    command: str,
    gpus: list[str] | None = None,
) -> None:
    """Finish one run in this process on its GPUs (None: all), with its output in its log."""
    if hasattr(os, "setpgrp"):  # whatever training starts ends with it
        os.setpgrp()
    if gpus is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
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
        finish(run, tests, None, jobs, command)
    except Exception:
        logger.exception("%s failed", run.name)
        sys.exit(1)


def _end_with_the_parent() -> None:
    """Exit with the parent, even if it is killed: two processes must not share a run's folder."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        if hasattr(os, "killpg"):
            os.killpg(os.getpgrp(), signal.SIGKILL)
        os._exit(1)
