"""``trivet annotate``: a language model labels a log."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from trivet.annotation.labelling import Labeller
    from trivet.llm.client import ChatClient


def annotate(
    file: Annotated[str, typer.Argument(metavar="LOG", help="Log, as for `trivet evaluate`.")],
    out: Annotated[Path, typer.Option(help="Labelled JSONL to write.")],
    model: ModelOption,
    base_url: BaseUrlOption = None,
    annotators: Annotated[
        int | None,
        typer.Option(
            min=1, max=2, help="1, or 2 to compare: two models, or two samples of one model."
        ),
    ] = None,
    prompt: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="Prompt; see docs/annotation.md.")
    ] = "annotate-1",
    mapping: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="OURS=THEIRS", help="Name of a field in LOG. Repeatable."),
    ] = None,
    format: Annotated[  # noqa: A002 (the option's name)
        str | None,
        typer.Option(metavar="FORMAT", help="Format of LOG, by default its suffix."),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="Encoding of LOG; default: as it looks.")
    ] = None,
    concurrency: ConcurrencyOption = 8,
    price: PriceOption = None,
    max_dollars: MaxDollarsOption = None,
    dry_run: DryRunOption = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Overwrite --out; paid answers are used again.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
) -> None:
    """Label a log with a language model.

    Writes rows that `train`, `test` and `calibrate` read. The same command resumes a run that was
    stopped; what was answered is not asked again.
    """
    count = annotators or len(model)
    if len(model) > count or len(model) > 2:
        raise typer.BadParameter(
            f"{len(model)} models for {count} annotators; give at most 2 of each"
        )
    settings = LlmSettings(
        *(model, base_url, price, max_dollars, concurrency, dry_run, restart, quiet)
    )
    with needs_extra("annotate"), llm_exits(out), contextlib.ExitStack() as stack:
        from trivet.annotation.asking import Prompt
        from trivet.annotation.labelling import REVIEW, Annotator, Labeller, rows_to_label
        from trivet.batch.run import rows_of_log
        from trivet.batch.settings import RunSettings
        from trivet.data.traces.trace_log import open_log

        read = Prompt(prompt)
        reading = RunSettings(
            mapping=parse_mapping(mapping or []), format=format, encoding=encoding
        )
        log = open_log(file, format, encoding)
        stack.enter_context(say_how_files_are_read(quiet))
        stack.enter_context(contextlib.closing(log))
        source = "stdin" if file == "-" else Path(file).name.split(".", 1)[0]

        def make_job(clients: Sequence[ChatClient]) -> Labeller:
            chosen = [
                Annotator(clients[number % len(clients)], read, number // len(clients))
                for number in range(count)
            ]
            return Labeller(chosen, source)

        run_llm_job(
            make_job,
            rows_to_label(rows_of_log(log, reading)),
            out,
            {"input": log.sha256(), "annotators": count, "prompt": read.version},
            settings,
            log,
            [REVIEW],
        )
