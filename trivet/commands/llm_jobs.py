"""Options and runs of the commands that call a language model."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from trivet.commands.options import QuietOption
from trivet.commands.shared import OVER_BUDGET, SOME_FAILED, USAGE, end, run_exits
from trivet.settings import Setting

if TYPE_CHECKING:
    from trivet.annotation.jobs import Job, Row
    from trivet.data.logs.log import Log
    from trivet.llm.cache import AnswerCache
    from trivet.llm.client import ChatClient

Item = TypeVar("Item")

_AHEAD = 4  # items that are worked on for each call at once
_llm = partial(Setting, panel="Language model")
ModelOption = Annotated[
    list[str], _llm("Model, as the endpoint names it. Repeatable.", metavar="NAME")
]


@dataclass(frozen=True)
class LlmSettings:
    """Calls of language models and their cost, and whether to overwrite or to only foresee."""

    base_url: Annotated[
        str | None,
        _llm(
            "OpenAI-compatible endpoint, such as http://127.0.0.1:8080/v1; default: OpenAI. The "
            "key is read from OPENAI_API_KEY.",
            metavar="URL",
        ),
    ] = None
    price: Annotated[
        list[str] | None,
        _llm(
            "Dollars per million tokens read and written; one for all models, or one for each.",
            metavar="IN,OUT",
        ),
    ] = None
    max_dollars: Annotated[
        float | None,
        _llm("Stop before more is spent, earlier runs included; needs --price.", least=0),
    ] = None
    concurrency: Annotated[int, _llm("Most calls at once.", metavar="N", least=1)] = 8
    dry_run: Annotated[bool, _llm("Print calls, tokens and dollars; call nothing.")] = False
    restart: Annotated[
        bool, Setting("Overwrite --out; paid answers are used again.", panel="Output")
    ] = False
    quiet: QuietOption = False


def run_llm_job(
    make_job: Callable[[Sequence[ChatClient]], Job[Item]],
    items: Iterable[tuple[Row, Item]],
    out: Path,
    described: Mapping[str, Any],
    models: Sequence[str],
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
        models: Models to ask.
        settings: Options.
        log: Log whose share read so far is the progress.
        others: Kinds of files besides ``out`` and the rejected items.
    """
    import asyncio

    from trivet.annotation.jobs import REJECTED, foresee_job, run_job
    from trivet.annotation.results import ResultFiles

    known = {"models": list(models), **described}
    ahead = _AHEAD * settings.concurrency
    with (
        ResultFiles(out, [*others, REJECTED], known, restart=settings.restart) as files,
        _open_clients(models, settings, files.cache) as clients,
    ):
        job = make_job(clients)
        if settings.dry_run:
            asked, bad, usage = foresee_job(job, items)
            print(f"{asked} to ask about, {bad} that cannot be used; at most {usage}")
            return
        with _show_progress(log, clients, settings.quiet) as show:
            tally = asyncio.run(run_job(job, items, files, ahead, show))
        files.summary["usage"] = _usage_of(clients)
    if not settings.quiet:
        print(f"{tally}\n{_usage_of(clients)}", file=sys.stderr)
        for field, figures in tally.agreement.to_dict().items():
            kappa = figures["kappa"]
            shown = "not defined" if kappa is None else f"{kappa:.3f}"
            print(f"{field}: kappa {shown}, agreement {figures['agreement']:.1%}, n {figures['n']}")
    if tally.rejected:
        raise typer.Exit(SOME_FAILED)


@contextlib.contextmanager
def _open_clients(
    models: Sequence[str], settings: LlmSettings, cache: AnswerCache
) -> Iterator[list[ChatClient]]:
    """Open a client for each model, with one budget; what the cache holds counts as spent."""
    from trivet.llm.budget import Budget, Price
    from trivet.llm.client import ChatClient

    given = [Price.parse(text) for text in settings.price or ("0,0",)]
    if settings.max_dollars is not None and not settings.price:
        raise typer.BadParameter("--max-dollars needs --price IN,OUT")
    if len(given) not in (1, len(models)):
        raise typer.BadParameter(f"{len(given)} --price for {len(models)} --model; give 1 or each")
    priced = list(zip(models, given * (len(models) // len(given)), strict=True))
    spent = sum(price.cost(*cache.tokens(model)) for model, price in dict(priced).items())
    client = partial(
        ChatClient,
        base_url=settings.base_url,
        cache=cache,
        budget=Budget(settings.max_dollars, spent),
        concurrency=settings.concurrency,
    )
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(client(model, price=price)) for model, price in priced]


@contextlib.contextmanager
def _show_progress(
    log: Log | None, clients: Sequence[ChatClient], quiet: bool
) -> Iterator[Callable[[object], None]]:
    """Show a state with the calls and dollars so far on stderr; yields what takes the state."""
    from trivet.batch.progress import show_line

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


def _usage_of(clients: Sequence[ChatClient]) -> str:
    """Return the calls, tokens and dollars of all clients."""
    from trivet.llm.budget import Usage

    total = Usage()
    for client in clients:
        total.add(client.usage)
    return str(total)


@contextlib.contextmanager
def llm_exits(out: Path) -> Iterator[None]:
    """Turn an error that stops a run of a language model into one line and an exit code."""
    from trivet.batch.output import no_room
    from trivet.llm.errors import BudgetError, LlmError

    try:
        with run_exits(), no_room(out):
            yield
    except BudgetError as error:
        raise end(error, OVER_BUDGET) from error
    except LlmError as error:
        raise end(
            f"{error}; the answers so far are kept, give the same command again", USAGE
        ) from error
