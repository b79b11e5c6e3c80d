"""Checkpoints of other projects: safetensors alone, no code of theirs, and no tensor made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from trivet.bundle.hub import HUB_NAME


def find_checkpoint(name: str) -> tuple[str, str | None]:
    """Return the folder or the repository of a name, and its revision."""
    match = None if Path(name).exists() else HUB_NAME.fullmatch(name)
    return (match[1], match[2]) if match else (name, None)


def load_checkpoint(
    auto: Any, source: str, revision: str | None, *, unread: str = "", whole: bool = False
) -> Any:
    """Load a model in fp32.

    Args:
        auto: Class of the library with ``from_pretrained``.
        source: Folder or repository.
        revision: Revision of a repository.
        unread: Part of the names of tensors that may be missing, because nobody reads them.
        whole: Whether every tensor of the file must belong to the model.

    Raises:
        ImportError, OSError, RuntimeError, ValueError: The weights cannot be read or are not
            safetensors, or a tensor is missing or left over.
    """
    model, loading = auto.from_pretrained(
        source,
        revision=revision,
        trust_remote_code=False,
        use_safetensors=True,
        output_loading_info=True,
        dtype=torch.float32,
    )
    # The library fills missing tensors with random numbers.
    wrong = [name for name in loading["missing_keys"] if not unread or unread not in name]
    check_tensors(model, wrong + list(loading["unexpected_keys"]) * whole)
    return model


def check_tensors(model: Any, wrong: list[str]) -> None:
    """Refuse tensors that a file lacks or has too many; a ``ValueError`` names the first."""
    if wrong:
        raise ValueError(
            f"{len(wrong)} tensors are missing or left over, first {min(wrong)}; the file is "
            f"incomplete, or no {type(model).__name__}"
        )
