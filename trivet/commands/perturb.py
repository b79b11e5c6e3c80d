"""``trivet perturb``: small errors in supported responses, for training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trivet.commands.llm_jobs import LlmSettings, run_llm_job
from trivet.commands.llm_options import (
    BaseUrlOption,
    ConcurrencyOption,
    DryRunOption,
    MaxDollarsOption,
    PriceOption,
    llm_exits,
)
from trivet.commands.shared import needs_extra


def perturb(
    labelled: Annotated[Path, typer.Argument(metavar="LABELLED", help="Labelled JSONL.")],
    out: Annotated[Path, typer.Option(help="Labelled JSONL to write: all rows, and the twins.")],
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Model, as the endpoint names it.")
    ] = None,
    rules: Annotated[
        bool, typer.Option("--rules", help="Change values by rules; calls no model.")
    ] = False,
    share: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the supported responses with a twin.")
    ] = 0.4,
    edits: Annotated[
        int, typer.Option(min=1, max=5, metavar="N", help="Most errors of a response.")
    ] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
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
    """Plant small errors in supported responses, for training.

    The place of each error is known exactly. Each changed row follows its original. The same
    command resumes a run; what was answered is not asked again.
    """
    if rules == (model is not None):
        raise typer.BadParameter("give --model NAME or --rules")
    with needs_extra("annotate"), llm_exits(out):
        from trivet.annotation.perturb import Perturber, RuleTwins, originals_of
        from trivet.data.logs.log import Log

        models = [] if model is None else [model]
        settings = LlmSettings(
            *(models, base_url, price, max_dollars, concurrency, dry_run, restart, quiet)
        )
        described = {"input": Log(str(labelled)).sha256(), "share": share, "seed": seed}
        described |= {"rules": True} if rules else {"edits": edits}
        run_llm_job(
            lambda clients: Perturber(clients[0], edits) if clients else RuleTwins(),
            *(originals_of(labelled, share, seed), out, described, settings),
        )
