"""``trivet import``: a bundle of a published detector."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trivet.commands.command import Command
from trivet.commands.export import write_graphs
from trivet.commands.options import options
from trivet.commands.shared import needs_extra, what_was_typed
from trivet.settings import Setting, ThreadsOption

import_ = typer.Typer(
    name="import", help="Make a bundle of a published detector.", no_args_is_help=True
)


@import_.callback()
def _kinds() -> None:
    """Keep the kind of the detector in the command, though there is one."""


@import_.command(cls=Command)
@options
def lettucedetect(
    name: Annotated[
        str,
        Setting("Folder of the checkpoint, or org/name[@revision] on the hub.", "PATH_OR_HUB"),
    ],
    *,
    out: Annotated[Path, Setting("Folder of the bundle.")],
    size: Annotated[
        int | None,
        Setting("Tokens of a window; default: 4096, or all that the model has.", least=32),
    ] = None,
    licence: Annotated[str, Setting("Licence of the weights.")] = "unknown",
    export: Annotated[bool, Setting("Also write the ONNX graphs that ONNX Runtime needs.")] = True,
    threads: ThreadsOption = None,
) -> None:
    """Import a token classifier of the LettuceDetect family."""
    with needs_extra("train"):
        from trivet.importing import import_lettucedetect
    import_lettucedetect(name, out, size=size, licence=licence, command=what_was_typed())
    if export:
        write_graphs(out, None, None, "portable", threads)
    print(out)
