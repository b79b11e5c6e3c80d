"""``trivet info``, ``publish`` and ``import``: facts of a bundle, the hub, published detectors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trivet.commands.command import Command
from trivet.commands.exporting import write_graphs
from trivet.commands.options import BundleArgument, options
from trivet.commands.shared import needs_extra, what_was_typed
from trivet.settings import Setting, ThreadsOption


@options
def info(
    bundle: Annotated[
        Path | None,
        Setting("Folder, or org/name[@revision] on the hub; default: embedded.", "BUNDLE"),
    ] = None,
) -> None:
    """Check the files of a bundle and show its facts and scores."""
    from trivet.backends.device import describe_devices
    from trivet.bundle.bundle import read_bundle
    from trivet.bundle.hub import EMBEDDED_BUNDLE
    from trivet.report import terminal
    from trivet.report.bundle_tables import render_info

    stored = read_bundle(bundle or EMBEDDED_BUNDLE)
    terminal.show(render_info(stored.info, str(stored.folder), describe_devices(), stored.revision))


@options
def publish(
    bundle: BundleArgument,
    repository: Annotated[str, Setting("Repository; created if there is none.", "ORG/NAME")],
    *,
    private: Annotated[bool, Setting("Make a new repository private.")] = False,
) -> None:
    """Publish a bundle on the Hugging Face hub.

    Bundle and model card are one commit. Prints ORG/NAME@COMMIT. The hub's token is that of
    `hf auth login` or HF_TOKEN.
    """
    from trivet.bundle.publish import publish as commit

    print(f"{repository}@{commit(bundle, repository, private)}")


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
        str, Setting("Folder of the checkpoint, or org/name[@revision] on the hub.", "PATH_OR_HUB")
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
