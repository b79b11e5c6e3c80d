"""``trivet lightning``: the LightningCLI over the sections of a training configuration."""

from __future__ import annotations

import typer

from trivet.commands.shared import needs_extra

# All that follows fit, validate, test or predict is for the LightningCLI.
PASSED_ON = {
    "allow_extra_args": True,
    "allow_interspersed_args": False,
    "ignore_unknown_options": True,
}


def lightning(context: typer.Context) -> None:
    """Run Lightning's command line.

    It has fit, validate, test and predict, each with --help.
    """
    with needs_extra("train"):
        import jsonargparse  # noqa: F401  (LightningCLI names no extra)

        from trivet.lightning_cli import run
    run(context.args)
