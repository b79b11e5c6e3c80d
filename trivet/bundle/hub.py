"""Bundles by name: a folder, the bundle of this package, or a repository of the hub.

The hub is that of Hugging Face, through its library and its cache. A bundle from there holds plain
data, safetensors and ONNX only, and every file is checked against its manifest.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from trivet.bundle.manifest import MANIFEST_NAME, Manifest, check_name, read_manifest
from trivet.errors import BundleError, install_line

EMBEDDED_BUNDLE = Path(__file__).parent.parent / "bundles" / "embedded"

HUB_NAME = re.compile(
    r"(?!.*\.\.)([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@([\w./-]+))?", re.ASCII
)
_HUB_SUFFIXES = frozenset({".json", ".md", ".txt", ".safetensors", ".onnx", ""})


class Located(NamedTuple):
    """A bundle's folder."""

    folder: Path
    revision: str | None  # commit of a bundle from the hub
    read_only: bool  # whether the folder belongs to a package or to the hub's cache


def locate(name: str | os.PathLike[str]) -> Located:
    """Return the folder of a bundle, downloading it if necessary.

    Args:
        name: A folder; ``embedded``, the bundle of this package; or a repository of the hub,
            ``org/name`` or ``org/name@revision``.

    Raises:
        BundleError: The repository cannot be found, or it holds no bundle.
    """
    folder, text = Path(name), os.fspath(name)
    same = folder.exists() and folder.resolve() == EMBEDDED_BUNDLE.resolve()
    if text == EMBEDDED_BUNDLE.name or same:
        return Located(EMBEDDED_BUNDLE, None, True)
    if not folder.exists() and (match := HUB_NAME.fullmatch(text)):
        folder = _download(text, match[1], match[2])
    if folder.parent.name == "snapshots" and folder.parent.parent.name.startswith("models--"):
        return Located(folder, folder.name, True)  # the layout of the hub's cache
    return Located(folder, None, False)


def check_hub_files(name: str, manifest: Manifest) -> None:
    """Refuse files that the hub's bundles may not hold, such as engines.

    Raises:
        BundleError: There is such a file; the message names it.
    """
    for file in manifest.files:
        check_name(file)
        if Path(file).suffix not in _HUB_SUFFIXES and not file.endswith(".onnx.weights"):
            raise BundleError(
                f"{name}: {file} is refused: a bundle on the hub holds weights as safetensors and "
                "graphs as ONNX only; export engines on the machine that runs them"
            )


def import_hub(name: str) -> ModuleType:
    """Return the library ``huggingface_hub``.

    Raises:
        BundleError: It is not installed; the message begins with ``name``.
    """
    try:
        import huggingface_hub
        import huggingface_hub.errors
    except ImportError as error:
        raise BundleError(
            f"{name}: a name on the hub needs huggingface_hub, which is not installed; "
            f"{install_line('hub')}"
        ) from error
    return huggingface_hub


def explain_hub_error(name: str, error: Exception) -> BundleError:
    """Return what an error of the hub's library means for the user, in one sentence."""
    from huggingface_hub import errors

    reasons: dict[type[Exception], str] = {
        errors.LocalEntryNotFoundError: "the hub cannot be reached, and its cache has no such "
        "file; give a folder, or try again with a connection",
        errors.RevisionNotFoundError: "the repository on the hub has no such revision",
        errors.GatedRepoError: "the repository on the hub is gated; set HF_TOKEN",
        errors.RepositoryNotFoundError: "no such repository on the hub; a private one needs "
        "HF_TOKEN",
        errors.EntryNotFoundError: f"the repository on the hub lacks {MANIFEST_NAME} or a file of "
        "it, so it is not a bundle",
        errors.HFValidationError: "not a name of the hub",
    }
    for kind, reason in reasons.items():
        if isinstance(error, kind):
            return BundleError(f"{name}: {reason}")
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return BundleError(f"{name}: the hub cannot be used: {lines[0]}")


def _download(name: str, repository: str, revision: str | None) -> Path:
    """Return the cache's folder of a revision after downloading the files of its manifest."""
    hub = import_hub(f"{name}: no such folder")
    try:
        file = hub.hf_hub_download(repository, MANIFEST_NAME, revision=revision)
        folder = Path(file).parent
        manifest = read_manifest(folder, links=True)
        check_hub_files(name, manifest)
        files = [MANIFEST_NAME, *manifest.files]
        hub.snapshot_download(repository, revision=folder.name, allow_patterns=files)
    except BundleError:
        raise
    except Exception as error:  # the library passes on errors of its HTTP client
        raise explain_hub_error(name, error) from error
    return folder
