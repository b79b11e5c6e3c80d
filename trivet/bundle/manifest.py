"""A bundle's manifest: size and SHA-256 of every file.

It protects against damage and mix-ups, which safetensors and ONNX Runtime do not notice. It is not
a signature and does not prove who wrote the bundle.
"""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trivet.errors import BundleError, fault_words

MANIFEST_NAME = "MANIFEST.json"
MANIFEST_SCHEMA = 1
PARTIAL_NAME = ".partial"
"""Folder in a bundle with the files of an unfinished write; nothing reads it."""

# Flat names: no separator and no leading dot, so no path leads out of the folder.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
# Data only: pickles (.bin, .pt, .ckpt, .pkl) run code when they are opened.
_SUFFIXES = frozenset(
    {".json", ".md", ".txt", ".safetensors", ".onnx", ".engine", ".xml", ".weights"}
)
_BARE_NAMES = frozenset({"LICENSE", "NOTICE"})


class Part(BaseModel):
    """A part of a bundle's JSON: strict types, no unknown keys, no NaN, immutable."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class FileRecord(Part):
    """Size in bytes and SHA-256 in hexadecimal of one file."""

    size: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Manifest(Part):
    """All files of a bundle except the manifest, by name."""

    schema_version: int
    files: dict[str, FileRecord]


def check_name(name: str) -> None:
    """Check that a file name is allowed in a bundle.

    Raises:
        BundleError: ``name`` is a path, hidden, or not a plain data file.
    """
    if not _PLAIN_NAME.fullmatch(name) or ".." in name:
        raise BundleError(
            f"file name {name!r} is refused: a bundle is one flat folder, and its names are "
            "letters, digits, '.', '_' and '-'"
        )
    if name not in _BARE_NAMES and Path(name).suffix not in _SUFFIXES:
        raise BundleError(
            f"file {name!r} is refused: a bundle holds only {', '.join(sorted(_SUFFIXES))} files; "
            "store weights as safetensors"
        )


def write_manifest(folder: Path, others: Mapping[str, FileRecord] | None = None) -> None:
    """Write ``MANIFEST.json`` for all files of ``folder``, and for others that will join them.

    Raises:
        BundleError: The folder holds something that a bundle must not hold.
    """
    names = _names_in(folder)
    for name in names:
        check_name(name)
    files = {**(others or {}), **{name: _record(folder / name) for name in names}}
    manifest = Manifest(schema_version=MANIFEST_SCHEMA, files=dict(sorted(files.items())))
    text = manifest.model_dump_json(indent=2) + "\n"
    (folder / MANIFEST_NAME).write_text(text, encoding="utf-8")


def check_manifest(folder: Path, links_into: Path | None = None) -> Manifest:
    """Compare every file of ``folder`` with its manifest, and return the manifest.

    Args:
        folder: Folder of a bundle.
        links_into: Folder that the files may be links into, as in the cache of the hub; files that
            the manifest does not name are ignored then.

    Raises:
        BundleError: The manifest is missing or unreadable, or a file is missing, unknown, a link,
            or differs in size or content. The message names the file.
    """
    manifest = read_manifest(folder, links=links_into is not None)
    for name in manifest.files:
        check_name(name)
    if links_into is None:
        present = set(_names_in(folder))
    else:
        inside = links_into.resolve()
        found_in = {name: (folder / name).resolve() for name in manifest.files}
        present = {
            name
            for name, path in found_in.items()
            if path.is_file() and path.is_relative_to(inside)
        }
    missing = sorted(manifest.files.keys() - present)
    if missing:
        raise BundleError(
            f"{folder}: {_listed(missing)} named in {MANIFEST_NAME} but missing; "
            "copy the bundle again, as a whole"
        )
    unknown = sorted(present - manifest.files.keys())
    if unknown:
        raise BundleError(
            f"{folder}: {_listed(unknown)} not named in {MANIFEST_NAME}; remove what does not "
            "belong to the bundle"
        )
    for name, expected in manifest.files.items():
        actual = _record(folder / name)
        if actual.size != expected.size:
            raise BundleError(
                f"{folder / name}: {actual.size} bytes instead of {expected.size}; the file is "
                "truncated or was replaced, copy the bundle again"
            )
        if actual.sha256 != expected.sha256:
            raise BundleError(
                f"{folder / name}: SHA-256 {actual.sha256[:12]}... instead of "
                f"{expected.sha256[:12]}...; the file was altered or damaged, copy the bundle again"
            )
    return manifest


def read_manifest(folder: Path, links: bool = False) -> Manifest:
    """Read and validate ``MANIFEST.json``, which may be a link if ``links``.

    Raises:
        BundleError: It is missing or not a manifest.
    """
    path = folder / MANIFEST_NAME
    if not folder.is_dir():
        raise BundleError(f"{folder}: no such folder; a bundle is a folder with a {MANIFEST_NAME}")
    if not path.is_file() or (path.is_symlink() and not links):
        raise BundleError(f"{path}: missing; this is not a bundle, or writing it was interrupted")
    try:
        manifest = Manifest.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise BundleError(f"{path}: not a manifest: {fault_words(error, 1)}") from error
    if manifest.schema_version != MANIFEST_SCHEMA:
        raise BundleError(
            f"{path}: schema_version {manifest.schema_version}, this trivet reads "
            f"{MANIFEST_SCHEMA}; use a newer trivet"
        )
    return manifest


def _names_in(folder: Path) -> list[str]:
    """Return the sorted names in ``folder`` except the manifest; refuse all but regular files."""
    names = []
    for path in folder.iterdir():
        if path.name == PARTIAL_NAME:
            continue
        if not stat.S_ISREG(path.lstat().st_mode):
            raise BundleError(
                f"{path}: not a regular file; a bundle holds no folders and no symbolic links"
            )
        if path.name != MANIFEST_NAME:
            names.append(path.name)
    return sorted(names)


def _record(path: Path) -> FileRecord:
    """Return the size and digest of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileRecord(size=path.stat().st_size, sha256=digest)


def _listed(names: list[str]) -> str:
    """Join a few names into a clause: ``a, b are`` or ``a is``."""
    verb = "is" if len(names) == 1 else "are"
    return f"{', '.join(names[:5])}{' ...' if len(names) > 5 else ''} {verb}"
