"""``trivet import``: a bundle of a published detector."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trivet.commands.export import write_graphs
from trivet.commands.shared import ThreadsOption, needs_extra, what_was_typed

import_ = typer.Typer(
    name="import", help="Make a bundle of a published detector.", no_args_is_help=True
)


@import_.callback()
def _kinds() -> None:
    """Keep the kind of the detector in the command, though there is one."""


@import_.command()
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
    export: Annotated[
        bool, typer.Option(help="Also write the ONNX graphs that ONNX Runtime needs.")
    ] = True,
    threads: ThreadsOption = None,
) -> None:
    """Import a token classifier of the LettuceDetect family."""
    with needs_extra("train"):
        from trivet.importing import import_lettucedetect
    import_lettucedetect(name, out, size=size, licence=licence, command=what_was_typed())
    if export:
        write_graphs(out, None, None, "portable", threads)
    print(out)
