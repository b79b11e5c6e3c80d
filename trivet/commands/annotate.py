"""``trivet annotate``: labels for a log by a language model."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trivet.batch.run_settings import LogReading, RunSettings
from trivet.commands.options import options
from trivet.commands.shared import (
    OVER_BUDGET,
    SOME_FAILED,
    USAGE,
    end,
    needs_extra,
    run_exits,
    say_how_files_are_read,
)
from trivet.settings import QuietOption, RestartOption, Setting

if TYPE_CHECKING:
    from trivet.llm.chat import Budget
    from trivet.llm.chat_client import ChatClient

_llm = partial(Setting, panel="Language model")


@options
def annotate(
    file: Annotated[str, Setting("Log, as for `trivet evaluate`.", "FILE")],
    *,
    out: Annotated[Path, Setting("Labelled JSONL to write.", panel="Output")],
    model: Annotated[
        list[str],
        _llm("Model, as the endpoint names it; two must agree.", metavar="NAME").repeatable,
    ],
    prompt: Annotated[
        str, Setting("Prompt; see docs/annotation.md.", metavar="NAME|FILE")
    ] = "annotate-1",
    reading: LogReading,
    base_url: Annotated[
        str | None,
        _llm(
            "OpenAI-compatible endpoint, such as http://127.0.0.1:8080/v1; default: OpenAI, or "
            "OPENAI_BASE_URL. The key is read from OPENAI_API_KEY.",
            metavar="URL",
        ),
    ] = None,
    price: Annotated[
        list[str] | None,
        _llm(
            "Dollars per million tokens read and written; one for all models, or one for each.",
            metavar="IN,OUT",
        ),
    ] = None,
    max_dollars: Annotated[
        float | None,
        _llm(
            "Stop before more is spent, earlier runs included; needs --price.", metavar="N", least=0
        ),
    ] = None,
    concurrency: Annotated[int, _llm("Rows asked about at once.", metavar="N", least=1)] = 8,
    restart: RestartOption = False,
    quiet: QuietOption = False,
) -> None:
    """Label a log with a language model.

    Writes rows that `train`, `test` and `calibrate` read. The same command resumes a run that was
    stopped; what was answered is not asked again.
    """
    if len(set(model)) < len(model) or len(model) > 2:
        raise typer.BadParameter(f"{len(model)} --model; give one, or two that differ")
    if max_dollars is not None and not price:
        raise typer.BadParameter("--max-dollars needs --price IN,OUT")
    if price and len(price) not in (1, len(model)):
        raise typer.BadParameter(f"{len(price)} --price for {len(model)} --model; give 1 or each")
    if out.suffix != ".jsonl":
        raise typer.BadParameter(f"--out {out} must end in .jsonl")
    with needs_extra("research"), _llm_exits(out), contextlib.ExitStack() as stack:
        from trivet.annotation.asking import Prompt
        from trivet.annotation.labelling import Labeller, PaidAnswers, label_rows
        from trivet.batch.progress import show_line
        from trivet.batch.resumable_jsonl import ResumableJsonl
        from trivet.batch.run import rows_of_log
        from trivet.llm.chat import Budget
        from trivet.logs.trace_log import open_log

        budget, read_prompt = Budget(max_dollars), Prompt(prompt)
        log = open_log(file, reading.format, reading.encoding, is_mapped=bool(reading.mapping))
        stack.enter_context(say_how_files_are_read(quiet))
        stack.enter_context(contextlib.closing(log))
        rows = rows_of_log(log, RunSettings(reading.mapping, reading.format, reading.encoding))
        clients = [
            stack.enter_context(client)
            for client in _clients(model, price or ["0,0"], base_url, budget)
        ]
        made_of = {"models": model, "input": log.sha256(), "prompt": read_prompt.version}
        kept = ResumableJsonl.of(out.with_suffix(".answers.jsonl"), made_of, restart=restart)
        answers = PaidAnswers(stack.enter_context(kept), clients, budget)
        if not restart:
            answers.check(out)
        source = "stdin" if file == "-" else Path(file).name.split(".", 1)[0]
        with show_line(quiet) as say:
            counts = label_rows(
                Labeller(clients, read_prompt, answers, source), rows, out, concurrency, say
            )
    if not quiet:
        shown = ", ".join(f"{name} {count}" for name, count in counts.most_common())
        print(f"{shown}; ${budget.spent:.4f} spent", file=sys.stderr)
    if counts.total() > counts["labelled"]:
        raise typer.Exit(SOME_FAILED)


def _clients(
    models: list[str], prices: list[str], base_url: str | None, budget: Budget
) -> Iterator[ChatClient]:
    from trivet.llm.chat import Price
    from trivet.llm.chat_client import ChatClient

    model_prices = prices * (len(models) // len(prices))
    for model, price in zip(models, model_prices, strict=True):
        yield ChatClient(model, base_url=base_url, price=Price.parse(price), budget=budget)


@contextlib.contextmanager
def _llm_exits(out: Path) -> Iterator[None]:
    """Turn an error that stops a run of a language model into one line and an exit code."""
    from trivet.batch.output import raise_on_full_disk
    from trivet.llm.chat import BudgetError, LlmError

    try:
        with run_exits(), raise_on_full_disk(out):
            yield
    except BudgetError as error:
        raise end(error, OVER_BUDGET) from error
    except LlmError as error:
        text = f"{error}; the answers so far are kept, give the same command again"
        raise end(text, USAGE) from error
