"""``trivet annotate``: a language model labels a log."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trivet.batch.settings import Reading, RunSettings
from trivet.commands.llm_jobs import ModelOption, llm_exits, tell
from trivet.commands.options import options
from trivet.commands.shared import needs_extra, say_how_files_are_read
from trivet.llm.settings import LlmSettings
from trivet.settings import Setting

if TYPE_CHECKING:
    from trivet.annotation.labelling import Labeller
    from trivet.llm.client import ChatClient


@options
def annotate(
    file: Annotated[str, Setting("Log, as for `trivet evaluate`.", "FILE")],
    *,
    out: Annotated[Path, Setting("Labelled JSONL to write.", panel="Output")],
    model: ModelOption,
    annotators: Annotated[
        int | None,
        Setting("1, or 2 to compare: two models, or two samples of one model.", least=1, most=2),
    ] = None,
    prompt: Annotated[
        str, Setting("Prompt; see docs/annotation.md.", metavar="NAME|FILE")
    ] = "annotate-1",
    reading: Reading,
    settings: LlmSettings,
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
    with needs_extra("annotate"), llm_exits(out), contextlib.ExitStack() as stack:
        from trivet.annotation.asking import Prompt
        from trivet.annotation.labelling import REVIEW, Annotator, Labeller, rows_to_label
        from trivet.annotation.llm_run import run_or_foresee
        from trivet.batch.run import rows_of_log
        from trivet.data.traces.trace_log import open_log

        read = Prompt(prompt)
        read_as = RunSettings(reading.mapping, reading.format, reading.encoding)
        log = open_log(file, reading.format, reading.encoding)
        stack.enter_context(say_how_files_are_read(settings.quiet))
        stack.enter_context(contextlib.closing(log))
        source = "stdin" if file == "-" else Path(file).name.split(".", 1)[0]

        def make_job(clients: Sequence[ChatClient]) -> Labeller:
            chosen = [
                Annotator(clients[number % len(clients)], read, number // len(clients))
                for number in range(count)
            ]
            return Labeller(chosen, source)

        found = run_or_foresee(
            make_job,
            rows_to_label(rows_of_log(log, read_as)),
            out,
            {"input": log.sha256(), "annotators": count, "prompt": read.version},
            model,
            settings,
            log,
            [REVIEW],
        )
        tell(found, settings.quiet)
