"""Running a job of a language model, for `trivet annotate`, `generate` and `perturb`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from trivet.commands.llm_options import open_clients, show_llm_progress, usage_of
from trivet.commands.shared import SOME_FAILED

if TYPE_CHECKING:
    from trivet.annotation.jobs import Job, Row
    from trivet.data.logs.log import Log
    from trivet.llm.client import ChatClient

Item = TypeVar("Item")

_AHEAD = 4  # items that are worked on for each call at once


@dataclass(frozen=True)
class LlmSettings:
    """Options of a job: models and their calls, and whether to overwrite or to only foresee."""

    models: Sequence[str]
    base_url: str | None
    prices: Sequence[str] | None
    max_dollars: float | None
    concurrency: int
    dry_run: bool
    restart: bool
    quiet: bool


def run_llm_job(
    make_job: Callable[[Sequence[ChatClient]], Job[Item]],
    items: Iterable[tuple[Row, Item]],
    out: Path,
    described: Mapping[str, Any],
    settings: LlmSettings,
    log: Log | None = None,
    others: Sequence[str] = (),
) -> None:
    """Write the rows of a job, or print what it would cost.

    Args:
        make_job: Function that makes the job from a client for each model.
        items: Items with their places.
        out: File to write.
        described: Input and settings on which the rows depend.
        settings: Options.
        log: Log whose share read so far is the progress.
        others: Kinds of files besides ``out`` and the rejected items.
    """
    import asyncio

    from trivet.annotation.jobs import REJECTED, foresee_job, run_job
    from trivet.annotation.results import ResultFiles

    known = {"models": list(settings.models), **described}
    ahead = _AHEAD * settings.concurrency
    with (
        ResultFiles(out, [*others, REJECTED], known, restart=settings.restart) as files,
        open_clients(
            *(settings.models, settings.base_url, settings.prices, settings.max_dollars),
            *(settings.concurrency, files.cache),
        ) as clients,
    ):
        job = make_job(clients)
        if settings.dry_run:
            asked, bad, usage = foresee_job(job, items)
            print(f"{asked} to ask about, {bad} that cannot be used; at most {usage}")
            return
        with show_llm_progress(log, clients, settings.quiet) as show:
            tally = asyncio.run(run_job(job, items, files, ahead, show))
        files.summary["usage"] = usage_of(clients)
    if not settings.quiet:
        print(f"{tally}\n{usage_of(clients)}", file=sys.stderr)
        for field, figures in tally.agreement.to_dict().items():
            kappa = figures["kappa"]
            shown = "not defined" if kappa is None else f"{kappa:.3f}"
            print(f"{field}: kappa {shown}, agreement {figures['agreement']:.1%}, n {figures['n']}")
    if tally.rejected:
        raise typer.Exit(SOME_FAILED)
