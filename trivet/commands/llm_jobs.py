"""``trivet annotate``, ``generate`` and ``perturb``: jobs of a language model, and their exits."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trivet.batch.settings import Reading, RunSettings
from trivet.commands.options import LabelledArgument, options
from trivet.commands.shared import (
    OVER_BUDGET,
    SOME_FAILED,
    USAGE,
    end,
    needs_extra,
    run_exits,
    say_how_files_are_read,
)
from trivet.llm.settings import LlmSettings
from trivet.settings import Setting

if TYPE_CHECKING:
    from trivet.annotation.jobs import Done, Foreseen
    from trivet.annotation.labelling import Labeller
    from trivet.llm.client import ChatClient


_model = Setting("Model, as the endpoint names it.", metavar="NAME", panel="Language model")
ModelOption = Annotated[list[str], _model.repeatable]


def tell(found: Done | Foreseen, quiet: bool) -> None:
    """Print what a job did or would do; exit with 1 if items were rejected."""
    from trivet.annotation.jobs import Foreseen

    if isinstance(found, Foreseen):
        print(found)
        return
    if not quiet:
        print(found, file=sys.stderr)
        for field, figures in found.tally.agreement.to_dict().items():
            kappa = figures["kappa"]
            shown = "not defined" if kappa is None else f"{kappa:.3f}"
            print(f"{field}: kappa {shown}, agreement {figures['agreement']:.1%}, n {figures['n']}")
    if found.tally.rejected:
        raise typer.Exit(SOME_FAILED)


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
    with needs_extra("research"), llm_exits(out), contextlib.ExitStack() as stack:
        from trivet.annotation.asking import Prompt
        from trivet.annotation.jobs import run_or_foresee
        from trivet.annotation.labelling import REVIEW, Annotator, Labeller, rows_to_label
        from trivet.batch.run import rows_of_log
        from trivet.logs.trace_log import open_log

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
        int, Setting("Responses to a question, or questions about a passage.", metavar="N", least=1)
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
    with needs_extra("research"), llm_exits(out), contextlib.ExitStack() as stack:
        from trivet.annotation.generate import Generator, Mixture, read_questions, samples_of
        from trivet.annotation.jobs import run_or_foresee
        from trivet.annotation.questions import Questioner, read_pools, sources_of
        from trivet.labelled.grouping import digest
        from trivet.logs.column_mapping import Columns
        from trivet.logs.trace_log import open_log

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
        stack.enter_context(contextlib.closing(log))
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


@options
def perturb(
    labelled: LabelledArgument,
    *,
    out: Annotated[
        Path, Setting("Labelled JSONL to write: all rows, and the twins.", panel="Output")
    ],
    model: Annotated[str | None, _model] = None,
    rules: Annotated[bool, Setting("Change values by rules; calls no model.")] = False,
    share: Annotated[
        float, Setting("Share of the supported responses with a twin.", least=0, most=1)
    ] = 0.4,
    edits: Annotated[int, Setting("Most errors of a response.", metavar="N", least=1, most=5)] = 2,
    seed: Annotated[int, Setting("Seed of the draws.", least=0)] = 0,
    settings: LlmSettings,
) -> None:
    """Plant small errors in supported responses, for training.

    The place of each error is known exactly. Each changed row follows its original. The same
    command resumes a run; what was answered is not asked again.
    """
    if rules == (model is not None):
        raise typer.BadParameter("give --model NAME or --rules")
    with needs_extra("research"), llm_exits(out):
        from trivet.annotation.jobs import run_or_foresee
        from trivet.annotation.perturb import Perturber, RuleTwins, originals_of
        from trivet.logs.log import Log

        models = [] if model is None else [model]
        described = {"input": Log(str(labelled)).sha256(), "share": share, "seed": seed}
        described |= {"rules": True} if rules else {"edits": edits}
        found = run_or_foresee(
            lambda clients: Perturber(clients[0], edits) if clients else RuleTwins(),
            *(originals_of(labelled, share, seed), out, described, models, settings),
        )
        tell(found, settings.quiet)
