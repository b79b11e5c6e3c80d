"""``trivet publish``: put a bundle on the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def publish(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="Folder of a bundle.")],
    repository: Annotated[
        str, typer.Argument(metavar="ORG/NAME", help="Repository; created if there is none.")
    ],
    private: Annotated[
        bool, typer.Option("--private", help="Make a new repository private.")
    ] = False,
) -> None:
    """Publish a bundle on the Hugging Face hub.

    Bundle and model card are one commit. Prints ORG/NAME@COMMIT. The hub's token is that of
    `hf auth login` or HF_TOKEN.
    """
    from trivet.bundle.publish import publish as commit

    print(f"{repository}@{commit(bundle, repository, private)}")
