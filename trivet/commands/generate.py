"""``trivet generate``: language models answer questions, or ask them about documents."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from trivet.batch.settings import Reading
from trivet.commands.llm_jobs import ModelOption, llm_exits, tell
from trivet.commands.options import options
from trivet.commands.shared import needs_extra, say_how_files_are_read
from trivet.llm.settings import LlmSettings
from trivet.settings import Setting


@options
def generate(
    questions: Annotated[
        str | None,
        Setting(
            "Log with questions and contexts, as for `trivet evaluate`; responses in it are not "
            "read.",
            "QUESTIONS",
        ),
    ] = None,
    *,
    out: Annotated[
        Path, Setting("JSONL to write: a log of responses, or questions.", panel="Output")
    ],
    model: ModelOption,
    documents: Annotated[
        Path | None,
        Setting(
            "Instead of QUESTIONS: write questions about its text, Markdown and PDF files.",
            metavar="FOLDER",
        ),
    ] = None,
    samples: Annotated[
        int,
        Setting("Responses to a question, or questions about a passage.", metavar="N", least=1),
    ] = 1,
    temperature: Annotated[
        list[float] | None, Setting("Of responses; default: 1. Repeatable.", metavar="T")
    ] = None,
    contexts: Annotated[
        int, Setting("Contexts of a question about documents.", metavar="N", least=1)
    ] = 4,
    seed: Annotated[int, Setting("Seed of the recipes.", least=0)] = 0,
    reading: Reading,
    settings: LlmSettings,
) -> None:
    """Write responses to questions, or questions about documents.

    Responses are written by a mixture of prompts, models and contexts, so that some are wrong as
    they are in use. The same command resumes a run; what was answered is not asked again.
    """
    if (questions is None) == (documents is None):
        raise typer.BadParameter("give QUESTIONS or --documents FOLDER")
    if documents is not None and len(model) != 1:
        raise typer.BadParameter(f"{len(model)} models to ask about documents; give one")
    with needs_extra("annotate"), llm_exits(out), contextlib.ExitStack() as stack:
        from trivet.annotation.generate import Generator, Mixture, read_questions, samples_of
        from trivet.annotation.llm_run import run_or_foresee
        from trivet.annotation.questions import Questioner, read_pools, sources_of
        from trivet.data.labelled.grouping import digest
        from trivet.data.logs.column_mapping import Columns
        from trivet.data.traces.trace_log import open_log

        if documents is not None:
            pools = read_pools(documents)
            texts = digest(*(passage.text for pool in pools for passage in pool.passages))
            found = run_or_foresee(
                lambda clients: Questioner(clients[0], samples, contexts),
                sources_of(pools),
                out,
                {"input": texts, "questions": samples, "contexts": contexts},
                model,
                settings,
            )
            return tell(found, settings.quiet)
        mixture = Mixture(model, temperature or [1.0], seed)
        log = open_log(str(questions), reading.format, reading.encoding)
        stack.enter_context(say_how_files_are_read(settings.quiet))
        rows = read_questions(log, Columns(reading.mapping, format=reading.format))
        found = run_or_foresee(
            lambda clients: Generator(clients, mixture),
            samples_of(rows, samples),
            out,
            vars(mixture) | {"input": log.sha256(), "samples": samples},
            model,
            settings,
            log,
        )
        tell(found, settings.quiet)
