"""``trivet generate``: language models answer questions, or ask them about documents."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from trivet.commands.llm_jobs import LlmSettings, run_llm_job
from trivet.commands.llm_options import (
    BaseUrlOption,
    ConcurrencyOption,
    DryRunOption,
    MaxDollarsOption,
    ModelOption,
    PriceOption,
    llm_exits,
)
from trivet.commands.shared import needs_extra, parse_mapping, say_how_files_are_read


def generate(
    out: Annotated[Path, typer.Option(help="JSONL to write: a log of responses, or questions.")],
    model: ModelOption,
    questions: Annotated[
        str | None,
        typer.Argument(
            metavar="QUESTIONS",
            help="Log with questions and contexts, as for `trivet evaluate`; responses in it are "
            "not read.",
            show_default=False,
        ),
    ] = None,
    documents: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Instead of QUESTIONS: write questions about its text, Markdown and PDF files.",
        ),
    ] = None,
    samples: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Responses to a question, or questions about a passage."
        ),
    ] = 1,
    temperature: Annotated[
        list[float] | None, typer.Option(metavar="T", help="Of responses; default: 1. Repeatable.")
    ] = None,
    contexts: Annotated[
        int, typer.Option(min=1, metavar="N", help="Contexts of a question about documents.")
    ] = 4,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the recipes.")] = 0,
    mapping: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="OURS=THEIRS", help="Field in QUESTIONS. Repeatable."),
    ] = None,
    base_url: BaseUrlOption = None,
    concurrency: ConcurrencyOption = 8,
    price: PriceOption = None,
    max_dollars: MaxDollarsOption = None,
    dry_run: DryRunOption = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Overwrite --out; paid answers are used again.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
) -> None:
    """Write responses to questions, or questions about documents.

    Responses are written by a mixture of prompts, models and contexts, so that some are wrong as
    they are in use. The same command resumes a run; what was answered is not asked again.
    """
    if (questions is None) == (documents is None):
        raise typer.BadParameter("give QUESTIONS or --documents FOLDER")
    if documents is not None and len(model) != 1:
        raise typer.BadParameter(f"{len(model)} models to ask about documents; give one")
    settings = LlmSettings(
        *(model, base_url, price, max_dollars, concurrency, dry_run, restart, quiet)
    )
    with needs_extra("annotate"), llm_exits(out), contextlib.ExitStack() as stack:
        from trivet.annotation.generate import Generator, Mixture, read_questions, samples_of
        from trivet.annotation.questions import Questioner, read_pools, sources_of
        from trivet.data.labelled.grouping import digest
        from trivet.data.logs.column_mapping import Columns
        from trivet.data.logs.log import Log

        if documents is not None:
            pools = read_pools(documents)
            texts = digest(*(passage.text for pool in pools for passage in pool.passages))
            run_llm_job(
                lambda clients: Questioner(clients[0], samples, contexts),
                sources_of(pools),
                out,
                {"input": texts, "questions": samples, "contexts": contexts},
                settings,
            )
            return
        mixture = Mixture(model, temperature or [1.0], seed)
        log = Log(str(questions))
        stack.enter_context(say_how_files_are_read(quiet))
        rows = read_questions(log, Columns(parse_mapping(mapping or [])))
        run_llm_job(
            lambda clients: Generator(clients, mixture),
            samples_of(rows, samples),
            out,
            vars(mixture) | {"input": log.sha256(), "samples": samples},
            settings,
            log,
        )
