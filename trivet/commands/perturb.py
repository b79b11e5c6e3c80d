"""``trivet perturb``: small errors in supported responses, for training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trivet.commands.llm_jobs import llm_exits, tell
from trivet.commands.options import options
from trivet.commands.shared import needs_extra
from trivet.llm.settings import LlmSettings
from trivet.settings import Setting


@options
def perturb(
    labelled: Annotated[Path, Setting("Labelled JSONL.", "LABELLED")],
    *,
    out: Annotated[
        Path, Setting("Labelled JSONL to write: all rows, and the twins.", panel="Output")
    ],
    model: Annotated[
        str | None,
        Setting("Model, as the endpoint names it.", metavar="NAME", panel="Language model"),
    ] = None,
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
    with needs_extra("annotate"), llm_exits(out):
        from trivet.annotation.llm_run import run_or_foresee
        from trivet.annotation.perturb import Perturber, RuleTwins, originals_of
        from trivet.data.logs.log import Log

        models = [] if model is None else [model]
        described = {"input": Log(str(labelled)).sha256(), "share": share, "seed": seed}
        described |= {"rules": True} if rules else {"edits": edits}
        found = run_or_foresee(
            lambda clients: Perturber(clients[0], edits) if clients else RuleTwins(),
            *(originals_of(labelled, share, seed), out, described, models, settings),
        )
        tell(found, settings.quiet)
