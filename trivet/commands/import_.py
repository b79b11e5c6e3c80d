"""``trivet import``: a bundle of a published detector."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trivet.commands.command import Command
from trivet.commands.shared import needs_extra, what_was_typed

import_ = typer.Typer(
    name="import", help="Make a bundle of a published detector.", no_args_is_help=True
)


@import_.callback()
def _kinds() -> None:
    """Keep the kind of the detector in the command, though there is one."""


@import_.command(cls=Command)
def lettucedetect(
    name: Annotated[
        str,
        typer.Argument(
            metavar="PATH_OR_HUB",
            help="Folder of the checkpoint, or org/name[@revision] on the hub.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the bundle.")],
    size: Annotated[
        int | None,
        typer.Option(min=32, help="Tokens of a window; default: 4096, or all that the model has."),
    ] = None,
    licence: Annotated[str, typer.Option(help="Licence of the weights.")] = "unknown",
) -> None:
    """Import a token classifier of the LettuceDetect family."""
    with needs_extra("train"):
        from trivet.importing import import_lettucedetect
    import_lettucedetect(name, out, size=size, licence=licence, command=what_was_typed())
    print(out)
