"""What stands beside a model in the repository: its parameters, and its own copy of the bundle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from trivet.bundle.manifest import MANIFEST_NAME
from trivet.records import BundleError
from trivet.serve.triton.config import BUNDLE


def read_parameters(args: Mapping[str, str]) -> dict[str, str]:
    """Return the ``parameters`` of a model's config.

    Args:
        args: What Triton's Python backend gives to ``initialize``.
    """
    config = json.loads(args["model_config"])
    return {name: value["string_value"] for name, value in config["parameters"].items()}


def find_bundle(args: Mapping[str, str], sha256: str) -> Path:
    """Return the folder of a model's bundle; its files are checked by whoever reads it.

    Args:
        args: What Triton's Python backend gives to ``initialize``.
        sha256: What ``config.pbtxt`` says of its manifest.

    Raises:
        BundleError: It is missing, or not the one that the config was written for.
    """
    folder = Path(args["model_repository"]) / args["model_version"] / BUNDLE
    found = manifest_sha256(folder)
    if found != sha256:
        raise BundleError(
            f"{folder / MANIFEST_NAME}: SHA-256 {found[:12]}... instead of {sha256[:12]}..., which "
            "config.pbtxt names; write the repository again: trivet export BUNDLE --triton DIR"
        )
    return folder


def manifest_sha256(folder: Path) -> str:
    """Return what names a bundle down to the last byte: the SHA-256 of its manifest.

    Raises:
        BundleError: There is none.
    """
    try:
        return hashlib.sha256((folder / MANIFEST_NAME).read_bytes()).hexdigest()
    except OSError as error:
        raise BundleError(f"{folder / MANIFEST_NAME}: cannot be read: {error}") from error
