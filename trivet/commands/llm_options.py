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

    given = [Price.parse(text) for text in prices or ("0,0",)]
    if max_dollars is not None and not prices:
        raise typer.BadParameter("--max-dollars needs --price IN,OUT")
    if len(given) not in (1, len(models)):
        raise typer.BadParameter(f"{len(given)} --price for {len(models)} --model; give 1 or each")
    priced = list(zip(models, given * (len(models) // len(given)), strict=True))
    spent = sum(price.cost(*cache.tokens(model)) for model, price in dict(priced).items())
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
            for model, price in priced
        ]


@contextlib.contextmanager
def show_llm_progress(
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
                show(f"{state} | {usage_of(clients)}{read}")

        yield show_state


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
    from trivet.llm.chat import BudgetError, LlmError

    try:
        with run_exits(), no_room(out):
            yield
    except BudgetError as error:
        raise end(error, OVER_BUDGET) from error
    except LlmError as error:
        raise end(
            f"{error}; the answers so far are kept, give the same command again", USAGE
        ) from error
