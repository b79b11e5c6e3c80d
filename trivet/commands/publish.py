"""``trivet publish``: put a bundle on the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from trivet.commands.options import options
from trivet.settings import Setting


@options
def publish(
    bundle: Annotated[Path, Setting("Folder of a bundle.", "BUNDLE")],
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
