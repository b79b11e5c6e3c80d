"""Output and exit codes of the commands that call a language model."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trivet.commands.shared import OVER_BUDGET, SOME_FAILED, USAGE, end, run_exits
from trivet.settings import Setting

if TYPE_CHECKING:
    from trivet.annotation.llm_run import Done, Foreseen

ModelOption = Annotated[
    list[str],
    Setting("Model, as the endpoint names it. Repeatable.", metavar="NAME", panel="Language model"),
]


def tell(found: Done | Foreseen, quiet: bool) -> None:
    """Print what a job did or would do; exit with 1 if items were rejected."""
    from trivet.annotation.llm_run import Foreseen

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
