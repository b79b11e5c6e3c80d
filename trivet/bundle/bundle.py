"""Read and write bundles: folders with everything that is needed to evaluate.

- ``bundle.json``: description of the model (``bundle.info.BundleInfo``)
- ``tokenizer.json``: tokenizer
- ``model.safetensors``: weights, with ``encoder.json``, the rest of the architecture
- ``model.onnx``, ``model.int8.onnx``: exported graphs; ``model.onnx.weights``: weights over 2 GB
- ``model.openvino.xml``, ``model.openvino.weights``: model for OpenVINO
- ``self_test.json``: small inputs, and the answers that each file must give to them
- ``parity.json``: differences of the graphs from the weights
- ``training_texts.txt``: digests of the passages and questions that it was trained on
- ``README.md``: model card, generated from ``bundle.json``
- ``MANIFEST.json``: size and SHA-256 of every other file, checked before anything else is read

This module does not import torch; ``bundle.weights`` loads the weights.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from trivet.bundle.hub import EMBEDDED_BUNDLE, locate
from trivet.bundle.info import SCHEMA_VERSION, BundleInfo
from trivet.bundle.manifest import (
    MANIFEST_NAME,
    PARTIAL_NAME,
    FileRecord,
    Manifest,
    check_manifest,
    check_name,
    write_manifest,
)
from trivet.bundle.model_card import render_card
from trivet.errors import BundleError, fault_words
from trivet.model.architecture import IN_ENCODER_JSON, Architecture

if TYPE_CHECKING:
    import torch


from typing import Any

INFO_NAME = "bundle.json"
TOKENIZER_NAME = "tokenizer.json"
WEIGHTS_NAME = "model.safetensors"
ENCODER_NAME = "encoder.json"
GRAPH_NAME = "model.onnx"
INT8_NAME = "model.int8.onnx"
BF16_NAME = "model.bf16.onnx"
FP16_NAME = "model.fp16.onnx"
ATTENTION_NAME = "model.attention.onnx"
OPENVINO_NAME = "model.openvino.xml"
OPENVINO_WEIGHTS_NAME = "model.openvino.weights"
SELF_TEST_NAME = "self_test.json"
PARITY_NAME = "parity.json"
TEXTS_NAME = "training_texts.txt"
CARD_NAME = "README.md"

# Suffix of a file with the weights of a graph that exceeds one ONNX file.
EXTERNAL_SUFFIX = ".weights"

# Files of an earlier bundle, which a new one may replace.
_OWN_NAMES = frozenset(
    {
        MANIFEST_NAME,
        INFO_NAME,
        TOKENIZER_NAME,
        WEIGHTS_NAME,
        ENCODER_NAME,
        GRAPH_NAME,
        INT8_NAME,
        BF16_NAME,
        FP16_NAME,
        ATTENTION_NAME,
        OPENVINO_NAME,
        OPENVINO_WEIGHTS_NAME,
        SELF_TEST_NAME,
        PARITY_NAME,
        TEXTS_NAME,
        CARD_NAME,
    }
)


@dataclass(frozen=True)
class Bundle:
    """A bundle whose files match its manifest."""

    folder: Path
    info: BundleInfo
    manifest: Manifest
    revision: str | None = None  # commit of a bundle from the hub
    read_only: bool = False  # whether the folder belongs to a package or to the hub's cache

    @property
    def as_argument(self) -> str:
        """The folder in the command of an export, with ``--out`` if it is read only."""
        name = "embedded" if self.folder == EMBEDDED_BUNDLE else str(self.folder)
        return f"{name} --out DIR" if self.read_only else name

    def check_writable(self) -> None:
        """Refuse to change the files of a package or of the hub's cache.

        Raises:
            BundleError: The bundle is read only.
        """
        if self.read_only:
            raise BundleError(
                f"{self.folder}: this bundle is read only; give a folder with --out, or a copy of "
                "the bundle"
            )

    def has(self, name: str) -> bool:
        """Return whether the bundle holds the file ``name``."""
        return name in self.manifest.files

    def contents(self, name: str) -> dict[str, bytes | Path]:
        """Return the bytes of a file under its name; nothing if the bundle has no such file."""
        return {name: self.path(name).read_bytes()} if self.has(name) else {}

    def training_texts(self) -> frozenset[str] | None:
        """Return the digests of the texts that it was trained on, or None if it has no record."""
        if not self.has(TEXTS_NAME):
            return None
        return frozenset(self.path(TEXTS_NAME).read_text(encoding="ascii").split())

    def path(self, name: str) -> Path:
        """Return the path of the file ``name``.

        Raises:
            BundleError: The bundle holds no such file.
        """
        if not self.has(name):
            raise BundleError(
                f"{self.folder}: no {name}; "
                f"the bundle holds {', '.join(sorted(self.manifest.files))}"
            )
        return self.folder / name

    def graph_files(self, graph: str) -> tuple[str, ...]:
        """Return the file name of a graph, and that of its weights if they are apart."""
        return tuple(name for name in (graph, graph + EXTERNAL_SUFFIX) if self.has(name))


def write_bundle(
    folder: Path,
    info: BundleInfo,
    tokenizer_json: str,
    *,
    weights: Mapping[str, torch.Tensor] | None = None,
    architecture: Architecture | None = None,
    extra: Mapping[str, bytes | Path] | None = None,
) -> None:
    """Write a bundle in place of an older one, of which nothing remains.

    All new files are written before the first of them is replaced, so an
    interrupted call leaves the folder as it was.

    Args:
        folder: Folder to write, created if needed.
        info: Contents of ``bundle.json``.
        tokenizer_json: The tokenizer, as serialized by ``tokenizers``.
        weights: The model's state by parameter name, stored as safetensors.
        architecture: The model's, required with ``weights``.
        extra: Further files by name, as bytes or as paths to copy from.

    Raises:
        BundleError: The folder holds other files, or a name is refused.
    """
    files: dict[str, bytes | Path] = {TOKENIZER_NAME: tokenizer_json.encode()}
    if weights is not None:
        assert architecture is not None, "weights need their architecture"
        from safetensors.torch import save

        # Copies, because safetensors refuses tensors that share memory, such as tied weights.
        state = {
            name: tensor.detach().cpu().clone().contiguous() for name, tensor in weights.items()
        }
        files[WEIGHTS_NAME] = save(state)
        described = {name: getattr(architecture, name) for name in IN_ENCODER_JSON}
        files[ENCODER_NAME] = (json.dumps(described, indent=2) + "\n").encode()
    files.update(extra or {})
    check_folder(folder)
    _replace(folder, info, files, {})


def add_files(
    folder: Path,
    files: Mapping[str, bytes | Path],
    info: BundleInfo | None = None,
    without: Set[str] = frozenset(),
) -> None:
    """Add, replace or remove files of a bundle, and rewrite its card and manifest.

    ``info`` replaces ``bundle.json``; files named in ``without`` are removed if present. An
    interrupted call leaves the bundle as it was.

    Raises:
        BundleError: The bundle is damaged or read only, or a name is refused.
    """
    bundle = read_bundle(folder)
    bundle.check_writable()
    kept = {name: record for name, record in bundle.manifest.files.items() if name not in without}
    _replace(bundle.folder, info or bundle.info, files, kept)


def copy_graphs(bundle: Bundle, folder: Path) -> None:
    """Write a serving bundle: the graphs of another, without weights."""
    tokenizer = bundle.path(TOKENIZER_NAME).read_text(encoding="utf-8")
    left_out = {TOKENIZER_NAME, INFO_NAME, CARD_NAME, WEIGHTS_NAME, ENCODER_NAME}
    copied = {name: bundle.path(name) for name in bundle.manifest.files.keys() - left_out}
    write_bundle(folder, bundle.info, tokenizer, extra=copied)


def read_bundle(name: str | os.PathLike[str]) -> Bundle:
    """Check a bundle's files and read its description, without opening weights or graphs.

    Args:
        name: Folder or name of the bundle, as ``hub.locate`` takes it.

    Raises:
        BundleError: The bundle cannot be found, or a file is missing, altered, unknown or
            inconsistent; the message names it.
    """
    folder, revision, read_only = locate(name)
    manifest = check_manifest(folder, folder.parent.parent if revision else None)
    for name in (INFO_NAME, TOKENIZER_NAME):
        if name not in manifest.files:
            raise BundleError(f"{folder}: {name} is missing; every bundle needs one")
    info = parse_info((folder / INFO_NAME).read_bytes(), str(folder / INFO_NAME))
    graphs = [graph.file for graph in info.graphs]
    if info.openvino is not None:
        graphs += [name for name in (info.openvino.file, info.openvino.weights) if name]
    for file in graphs:
        if file not in manifest.files:
            raise BundleError(
                f"{folder / INFO_NAME}: names the graph {file}, which the bundle does not "
                "hold; run `trivet export onnx` on it again"
            )
    if not info.graphs and WEIGHTS_NAME not in manifest.files:
        raise BundleError(f"{folder}: holds neither {WEIGHTS_NAME} nor a graph; there is no model")
    if WEIGHTS_NAME in manifest.files and ENCODER_NAME not in manifest.files:
        raise BundleError(
            f"{folder}: {ENCODER_NAME} is missing; {WEIGHTS_NAME} cannot be loaded without it"
        )
    return Bundle(folder, info, manifest, revision, read_only)


def check_folder(folder: Path) -> None:
    """Check that a new bundle may be written into a folder.

    Raises:
        BundleError: It holds files that belong to no bundle.
    """
    names = {*_OWN_NAMES, PARTIAL_NAME}
    with contextlib.suppress(OSError, ValueError):  # what an older bundle lists is its own
        names |= Manifest.model_validate_json((folder / MANIFEST_NAME).read_bytes()).files.keys()
    present = folder.iterdir() if folder.exists() else ()
    others = sorted(path.name for path in present if path.name not in names)
    if others:
        raise BundleError(
            f"{folder}: holds {', '.join(others[:5])}, which is not part of a bundle; "
            "give an empty or a new folder"
        )


def _replace(
    folder: Path,
    info: BundleInfo,
    files: Mapping[str, bytes | Path],
    kept: Mapping[str, FileRecord],
) -> None:
    """Replace a bundle by new files, ``bundle.json``, the card and the files kept of it."""
    for name in files:
        check_name(name)
    partial = folder / PARTIAL_NAME
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        for name, content in files.items():
            if isinstance(content, bytes):
                (partial / name).write_bytes(content)
            else:
                shutil.copyfile(content, partial / name)
        (partial / INFO_NAME).write_text(info.to_json(), encoding="utf-8")
        (partial / CARD_NAME).write_text(render_card(info), encoding="utf-8")
        write_manifest(partial, kept)
        new = {path.name for path in partial.iterdir()}
        for name in sorted(new, key=lambda file_name: (file_name == MANIFEST_NAME, file_name)):
            if name == MANIFEST_NAME:  # last, after the old files are gone
                for old in folder.iterdir():
                    if old.name not in (*new, *kept, PARTIAL_NAME):
                        old.unlink()
            (partial / name).replace(folder / name)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def parse_info(text: bytes, where: str) -> BundleInfo:
    """Parse ``bundle.json``, checking its schema version first; messages call it ``where``.

    Raises:
        BundleError: The text is not JSON, has another schema version, or a key is missing, unknown
            or of the wrong type; the message names every such key.
    """
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise BundleError(f"{where}: not JSON: {error}") from error
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if version != SCHEMA_VERSION:
        raise BundleError(
            f"{where}: schema_version {version!r}, this trivet reads {SCHEMA_VERSION}; "
            + (
                "use a newer trivet"
                if isinstance(version, int) and version > SCHEMA_VERSION
                else "write the bundle again with this trivet"
            )
        )
    try:
        return BundleInfo.model_validate_json(json.dumps(without_past_fields(raw)))
    except ValidationError as error:
        raise BundleError(f"{where}: {fault_words(error)}") from error


# Field and the values of bundles that did not use it; any other value is refused as unknown.
_UNUSED: dict[tuple[str, str], tuple[Any, ...]] = {
    ("window", "sizes"): ([],),
    ("window", "break_even"): (None,),
    ("calibration", "method"): ("identity", "platt", "temperature"),
    ("calibration", "knots"): ({},),
}
# Thresholds that no verdict is decided by any more.
_DROPPED = ("answered", "halt")
# Name of the layout with these kinds of pieces, which were written one by one.
_LAYOUTS = {
    "cls contexts sep question sep response sep": "plain",
    "cls text question text contexts text sep response sep": "lettucedetect",
}


def without_past_fields(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the contents of ``bundle.json`` as this version writes them."""
    current = dict(raw)
    for (part, name), values in _UNUSED.items():
        fields = current.get(part)
        if isinstance(fields, dict) and name in fields and fields[name] in values:
            current[part] = {key: fields[key] for key in fields if key != name}
    if isinstance(thresholds := current.get("thresholds"), dict):
        kept = {name: value for name, value in thresholds.items() if name not in _DROPPED}
        current["thresholds"] = kept
    window = current.get("window")
    if isinstance(window, dict) and (layout := _layout_name(window.get("layout"))):
        current["window"] = window | {"layout": layout}
    return current


def _layout_name(layout: Any) -> str | None:
    pieces = layout.get("pieces") if isinstance(layout, dict) else None
    if not isinstance(pieces, list):
        return None
    return _LAYOUTS.get(
        " ".join(str(piece.get("kind")) for piece in pieces if isinstance(piece, dict))
    )
