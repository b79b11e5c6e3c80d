"""A bundle: one folder with all that is needed to judge, written and read here.

- ``bundle.json``: what the model is (``bundle_info.BundleInfo``)
- ``tokenizer.json``: text to ids
- ``model.safetensors``: weights, with ``encoder.json`` (``RagModel.architecture()``)
- ``model.onnx``: the same model as a graph; ``model.int8.onnx`` for CPUs; added by export
- ``model.openvino.xml`` and ``.weights``: for OpenVINO, where they are the best choice
- ``self_test.json``: small inputs and the answers each engine must give to them
- ``parity.json``: how far the graphs are from the weights, over a grid of shapes
- ``README.md``: the model card, made from ``bundle.json``
- ``MANIFEST.json``: size and SHA-256 of every file above

Reading checks the manifest before it opens anything else. Nothing here imports torch, so a
server without torch can read a bundle; ``bundle_weights`` turns the weights into a model.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trivet.bundle.manifest import (
    MANIFEST_NAME,
    Manifest,
    check_manifest,
    check_name,
    write_manifest,
)
from trivet.bundle.model_card import render_card
from trivet.bundle.schema import (
    BundleInfo,
    CalibrationInfo,
    DataInfo,
    EncoderInfo,
    GraphInfo,
    ScoreInfo,
    SpecialTokenIds,
    Thresholds,
    TrainingInfo,
    WindowInfo,
    parse_info,
)
from trivet.records import BundleError

if TYPE_CHECKING:
    import torch

__all__ = [
    "Bundle",
    "BundleInfo",
    "CalibrationInfo",
    "DataInfo",
    "EncoderInfo",
    "GraphInfo",
    "ScoreInfo",
    "SpecialTokenIds",
    "Thresholds",
    "TrainingInfo",
    "WindowInfo",
    "add_files",
    "read_bundle",
    "write_bundle",
]

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
CARD_NAME = "README.md"

# What an older run may have left in a folder, and a new run may therefore replace.
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
        CARD_NAME,
    }
)


@dataclass(frozen=True)
class Bundle:
    """A bundle whose files were all found to be what its manifest says.

    Attributes:
        folder: Where it stands.
        info: Its ``bundle.json``.
        manifest: Its files.
    """

    folder: Path
    info: BundleInfo
    manifest: Manifest

    def has(self, name: str) -> bool:
        """Return whether the bundle holds the file ``name``."""
        return name in self.manifest.files

    def path(self, name: str) -> Path:
        """Return where the file ``name`` stands.

        Raises:
            BundleError: The bundle holds no such file.
        """
        if not self.has(name):
            raise BundleError(
                f"{self.folder}: no {name}; "
                f"the bundle holds {', '.join(sorted(self.manifest.files))}"
            )
        return self.folder / name


def write_bundle(
    folder: Path,
    info: BundleInfo,
    tokenizer_json: str,
    *,
    weights: Mapping[str, torch.Tensor] | None = None,
    encoder_config: Mapping[str, Any] | None = None,
    extra: Mapping[str, bytes | Path] | None = None,
) -> None:
    """Write a bundle; the model card and the manifest come last.

    An older bundle in ``folder`` is replaced as a whole: what was exported from other weights must
    not survive. A run that stops half-way leaves no manifest, so nobody can load its remains.

    Args:
        folder: Where to write; made if need be.
        info: What the model is.
        tokenizer_json: The tokenizer, as ``tokenizers`` serialises it.
        weights: The model's state by parameter name; stored as safetensors.
        encoder_config: ``RagModel.architecture()``; goes with ``weights``.
        extra: Further files by name, as bytes or as files to copy.

    Raises:
        BundleError: The folder holds something that no bundle wrote, a name is refused, or weights
            come without the encoder's configuration (or the other way round).
    """
    if (weights is None) != (encoder_config is None):
        raise BundleError(f"{folder}: weights and encoder_config belong together; give both")
    files: dict[str, bytes | Path] = {TOKENIZER_NAME: tokenizer_json.encode()}
    if weights is not None:
        files[WEIGHTS_NAME] = _pack(weights)
        files[ENCODER_NAME] = (json.dumps(encoder_config, indent=2) + "\n").encode()
    files.update(extra or {})
    _clear(folder)
    _fill(folder, info, files)


def add_files(
    folder: Path,
    files: Mapping[str, bytes | Path],
    info: BundleInfo | None = None,
    without: Set[str] = frozenset(),
) -> None:
    """Add or replace files of a bundle, then write its card and manifest anew.

    Args:
        folder: A bundle; it is checked before it is changed.
        files: The files by name, as bytes or as files to copy.
        info: A new ``bundle.json``; ``None`` keeps the one at hand.
        without: Names of files that go, where they are there.

    Raises:
        BundleError: The bundle at hand is damaged, or a name is refused.
    """
    bundle = read_bundle(folder)
    (folder / MANIFEST_NAME).unlink()
    for name in without & bundle.manifest.files.keys():
        (folder / name).unlink()
    _fill(folder, info or bundle.info, files)


def read_bundle(folder: Path) -> Bundle:
    """Check a bundle's files, then read what it is. No weight and no graph is opened here.

    Raises:
        BundleError: Something is missing, altered, unknown or does not fit; the message names the
            file and says what to do.
    """
    manifest = check_manifest(folder)
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
        raise BundleError(f"{folder}: holds neither {WEIGHTS_NAME} nor a graph; nothing can answer")
    if WEIGHTS_NAME in manifest.files and ENCODER_NAME not in manifest.files:
        raise BundleError(f"{folder}: {ENCODER_NAME} is missing; {WEIGHTS_NAME} is of no use alone")
    return Bundle(folder=folder, info=info, manifest=manifest)


def _clear(folder: Path) -> None:
    """Make ``folder`` ready for a new bundle; the manifest goes first, so no half can be loaded."""
    folder.mkdir(parents=True, exist_ok=True)
    own = _OWN_NAMES | _listed_in(folder / MANIFEST_NAME)
    strangers = sorted(path.name for path in folder.iterdir() if path.name not in own)
    if strangers:
        raise BundleError(
            f"{folder}: holds {', '.join(strangers[:5])}, which no bundle wrote; "
            "give an empty or a new folder"
        )
    (folder / MANIFEST_NAME).unlink(missing_ok=True)
    for path in folder.iterdir():
        path.unlink()


def _listed_in(manifest: Path) -> frozenset[str]:
    """Return the names an older manifest lists: an earlier bundle's files may be replaced."""
    try:
        return frozenset(Manifest.model_validate_json(manifest.read_bytes()).files)
    except (OSError, ValueError):
        return frozenset()


def _fill(folder: Path, info: BundleInfo, files: Mapping[str, bytes | Path]) -> None:
    """Write ``files``, ``bundle.json``, the card, and then the manifest."""
    for name in files:
        check_name(name)
    for name, content in files.items():
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
        elif content.resolve() != (folder / name).resolve():
            shutil.copyfile(content, folder / name)
    (folder / INFO_NAME).write_text(info.to_json(), encoding="utf-8")
    (folder / CARD_NAME).write_text(render_card(info), encoding="utf-8")
    write_manifest(folder)


def _pack(weights: Mapping[str, torch.Tensor]) -> bytes:
    """Turn a state into the bytes of a safetensors file."""
    from safetensors.torch import save  # here, because a server has no torch

    # Contiguous copies: safetensors refuses tensors that share memory, as tied weights do.
    return save(
        {name: tensor.detach().cpu().clone().contiguous() for name, tensor in weights.items()}
    )
