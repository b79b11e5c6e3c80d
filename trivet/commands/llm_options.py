"""Options, clients, progress and exit codes of the commands that call a language model."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trivet.commands.shared import OVER_BUDGET, USAGE, end, run_exits

if TYPE_CHECKING:
    from trivet.data.logs.log import Log
    from trivet.llm.cache import AnswerCache
    from trivet.llm.client import ChatClient

_EVERY = 10.0  # seconds between two lines, where there is no terminal

ModelOption = Annotated[
    list[str], typer.Option(metavar="NAME", help="Model, as the endpoint names it. Repeatable.")
]
BaseUrlOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="OpenAI-compatible endpoint, such as http://127.0.0.1:8080/v1; default: OpenAI. The "
        "key is read from OPENAI_API_KEY.",
        show_default=False,
    ),
]
PriceOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="IN,OUT",
        help="Dollars per million tokens read and written; one for all models, or one for each.",
    ),
]
MaxDollarsOption = Annotated[
    float | None,
    typer.Option(min=0, help="Stop before more is spent, earlier runs included; needs --price."),
]
ConcurrencyOption = Annotated[int, typer.Option(min=1, metavar="N", help="Most calls at once.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Print calls, tokens and dollars; call nothing.")
]


@contextlib.contextmanager
def open_clients(
    models: Sequence[str],
    base_url: str | None,
    prices: Sequence[str] | None,
    max_dollars: float | None,
    concurrency: int,
    cache: AnswerCache,
) -> Iterator[list[ChatClient]]:
    """Open a client for each model, with one budget; what the cache holds counts as spent."""
    from trivet.llm.budget import Budget, Price
    from trivet.llm.client import ChatClient

    given = [Price.parse(text) for text in prices or ()]
    if max_dollars is not None and not given:
        raise typer.BadParameter("--max-dollars needs --price IN,OUT")
    if len(given) not in (0, 1, len(models)):
        raise typer.BadParameter(f"{len(given)} --price for {len(models)} --model; give 1 or each")
    each = given if len(given) == len(models) else [*given, Price()][:1] * len(models)
    known = dict(zip(models, each, strict=True))
    spent = sum(price.cost(*cache.tokens(model)) for model, price in known.items())
    budget = Budget(max_dollars, spent)
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(
                ChatClient(
                    model,
                    base_url=base_url,
                    cache=cache,
                    price=price,
                    budget=budget,
                    concurrency=concurrency,
                )
            )
            for model, price in zip(models, each, strict=True)
        ]


@contextlib.contextmanager
def show_llm_progress(
    log: Log | None, clients: Sequence[ChatClient], quiet: bool
) -> Iterator[Callable[[object], None]]:
    """Show a state with the calls and dollars so far on stderr; yields what takes the state."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    columns = BarColumn(20), TimeRemainingColumn(), TextColumn("{task.description}")
    is_drawn = console.is_terminal and not quiet
    shown = time.monotonic()
    with Progress(*columns, console=console, transient=True, disable=not is_drawn) as bar:
        task = bar.add_task("", total=1.0 if log else None)

        def show(state: object) -> None:
            nonlocal shown
            line = f"{state} | {usage_of(clients)}"
            share = log.share_read() if log else None
            bar.update(task, completed=share or 0.0, description=line)
            if not is_drawn and not quiet and time.monotonic() - shown > _EVERY:
                shown = time.monotonic()
                console.print(line)

        yield show


def usage_of(clients: Sequence[ChatClient]) -> str:
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
