"""A job of a language model from its settings to its files, with progress."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from trivet.annotation.jobs import REJECTED, Job, JobTally, Row, foresee_job, run_job
from trivet.annotation.results import ResultFiles
from trivet.batch.progress import show_line
from trivet.data.logs.log import Log
from trivet.llm.budget import Usage
from trivet.llm.client import ChatClient
from trivet.llm.settings import LlmSettings

Item = TypeVar("Item")

_AHEAD = 4  # items that are worked on for each call at once


class Foreseen(NamedTuple):
    """Requests that a job would make."""

    asked: int
    unusable: int
    usage: Usage

    def __str__(self) -> str:
        return (
            f"{self.asked} to ask about, {self.unusable} that cannot be used; at most {self.usage}"
        )


class Done(NamedTuple):
    """Rows that a job wrote, and its costs."""

    tally: JobTally
    usage: Usage

    def __str__(self) -> str:
        return f"{self.tally}\n{self.usage}"


def run_or_foresee(
    make_job: Callable[[Sequence[ChatClient]], Job[Item]],
    items: Iterable[tuple[Row, Item]],
    out: Path,
    described: Mapping[str, Any],
    models: Sequence[str],
    settings: LlmSettings,
    log: Log | None = None,
    others: Sequence[str] = (),
) -> Foreseen | Done:
    """Write the rows of a job, or tell what it would cost.

    Args:
        make_job: Function that makes the job from a client for each model.
        items: Items with their places.
        out: File to write.
        described: Input and settings on which the rows depend.
        models: Models to ask.
        settings: Endpoint, cost and output.
        log: Log whose share read so far is the progress.
        others: Kinds of files besides ``out`` and the rejected items.
    """
    known = {"models": list(models), **described}
    ahead = _AHEAD * settings.concurrency
    with (
        ResultFiles(out, [*others, REJECTED], known, restart=settings.restart) as files,
        settings.open_clients(models, files.cache) as clients,
    ):
        job = make_job(clients)
        if settings.dry_run:
            return Foreseen(*foresee_job(job, items))
        with _show_progress(log, clients, settings.quiet) as show:
            tally = asyncio.run(run_job(job, items, files, ahead, show))
        used = _usage_of(clients)
        files.summary["usage"] = str(used)
    return Done(tally, used)


@contextlib.contextmanager
def _show_progress(
    log: Log | None, clients: Sequence[ChatClient], quiet: bool
) -> Iterator[Callable[[object], None]]:
    """Show a state with the calls and dollars so far on stderr; yields what takes the state."""
    shown = time.monotonic()
    with show_line(quiet) as (show, every):

        def show_state(state: object) -> None:
            nonlocal shown
            if time.monotonic() - shown >= every:
                shown = time.monotonic()
                share = log and log.share_read()
                read = "" if share is None else f" | {share:.0%} read"
                show(f"{state} | {_usage_of(clients)}{read}")

        yield show_state


def _usage_of(clients: Sequence[ChatClient]) -> Usage:
    """Return the calls, tokens and dollars of all clients."""
    total = Usage()
    for client in clients:
        total.add(client.usage)
    return total
