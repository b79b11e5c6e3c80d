"""``trivet annotate``: a language model labels a log."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from trivet.commands.llm_options import (
    BaseUrlOption,
    ConcurrencyOption,
    DryRunOption,
    MaxDollarsOption,
    ModelOption,
    PriceOption,
    llm_exits,
    open_clients,
    show_llm_progress,
    usage_of,
)
from trivet.commands.shared import SOME_FAILED, needs_extra, parse_mapping
from trivet.data.traces.spans import TraceFormat


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
        Literal["jsonl", "json", "csv", "tsv", "parquet", "xlsx", TraceFormat] | None,
        typer.Option(metavar="FORMAT", help="Format of LOG, by default its suffix."),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="Encoding of LOG; default: UTF-8 or UTF-16.")
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
    stopped, without paying for an answer twice.
    """
    count = annotators or len(model)
    if len(model) > count or len(model) > 2:
        raise typer.BadParameter(
            f"{len(model)} models for {count} annotators; give at most 2 of each"
        )
    with needs_extra("annotate"):
        import asyncio

        from trivet.annotation.annotator import Annotator
        from trivet.annotation.prompt import Prompt
        from trivet.annotation.results import ResultFiles
        from trivet.annotation.run import REJECTED, REVIEW, annotate_rows, foresee
        from trivet.batch.run import rows_of_log
        from trivet.batch.settings import RunSettings
        from trivet.data.traces.trace_log import open_log

        read = Prompt(prompt)
    settings = RunSettings(mapping=parse_mapping(mapping or []), format=format, encoding=encoding)
    with llm_exits(out), contextlib.ExitStack() as stack:
        log = open_log(file, format, encoding)
        stack.enter_context(contextlib.closing(log))
        rows = rows_of_log(log, settings)
        described = {
            "input": log.sha256(),
            "models": list(model),
            "annotators": count,
            "prompt": read.version,
        }
        with (
            ResultFiles(out, [REVIEW, REJECTED], described, restart=restart) as files,
            open_clients(model, base_url, price, max_dollars, concurrency, files.cache) as clients,
        ):
            chosen = [
                Annotator(clients[number % len(clients)], read, number // len(clients))
                for number in range(count)
            ]
            if dry_run:
                good, bad, usage = foresee(rows, chosen)
                print(f"{good} rows to label, {bad} that cannot be read; at most {usage}")
                return
            source = "stdin" if file == "-" else Path(file).name.split(".", 1)[0]
            with show_llm_progress(log, clients, quiet) as show:
                tally = asyncio.run(
                    annotate_rows(rows, chosen, files, source, 4 * concurrency, show)
                )
            files.summary["usage"] = usage_of(clients)
    if not quiet:
        print(f"{tally}\n{usage_of(clients)}", file=sys.stderr)
        for field, figures in tally.agreement.to_dict().items():
            kappa = figures["kappa"]
            shown = "not defined" if kappa is None else f"{kappa:.3f}"
            print(f"{field}: kappa {shown}, agreement {figures['agreement']:.1%}, n {figures['n']}")
    if tally.rejected:
        raise typer.Exit(SOME_FAILED)
