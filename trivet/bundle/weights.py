"""Load a bundle's weights into a model, strictly.

The library's own loaders fill missing parameters with random numbers. Here every parameter must be
present, expected, of the right shape and finite.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from trivet.bundle.bundle import ENCODER_NAME, INT8_NAME, WEIGHTS_NAME, Bundle
from trivet.bundle.int8_weights import read_int8_weights
from trivet.errors import BundleError, ConfigError
from trivet.model.architecture import CONTEXT_HEADS
from trivet.model.rag_model import RagModel

_KEYS = frozenset({"encoder", "heads", "faithfulness", "dropout", "pooled_support"})
# Defaults of keys that older bundles lack.
_LATER: dict[str, Any] = {
    "trunk": "shared",
    "shared_layers": None,
    "granularity": "token",
    "calibration": {},
    "matches": False,
    "digits": [],
    "lexical_overlap": {},
    "sentence_layer": {},
    "support_classes": 3,
    "support_norm": None,
}
# Keys that make the library fetch and run code or kernels that no manifest covers.
_CODE_KEYS = frozenset(
    {"attn_implementation", "auto_map", "experts_implementation", "quantization_config"}
)


def load_rag_model(bundle: Bundle, changed: Mapping[str, Any] | None = None) -> RagModel:
    """Build the model and load its weights, in fp32 and eval mode, on the CPU.

    Args:
        bundle: A bundle with weights, or with an int8 graph that they are read back from.
        changed: Changes of the architecture that no weight depends on, for further training:
            ``faithfulness``, ``granularity``, ``dropout``, and the dropouts under ``encoder``.

    Raises:
        BundleError: The bundle holds no weights, or they do not fit the model; the message names
            the parameters and the file.
    """
    found: dict[str, torch.Tensor] | None = None
    if _has_weights(bundle):
        architecture, path = _read_architecture(bundle), bundle.path(WEIGHTS_NAME)
    else:
        path = bundle.path(INT8_NAME)
        architecture, found = read_int8_weights(bundle)
    changed = dict(changed or {})
    architecture["encoder"] |= changed.pop("encoder", {})
    architecture |= changed
    try:
        model = RagModel.from_architecture(architecture)
    except (KeyError, TypeError, ValueError, AttributeError, ConfigError) as error:
        raise BundleError(f"{path}: its encoder.json describes no model: {error!r}") from error
    if found is None:
        try:
            found = load_file(path)
        except SafetensorError as error:
            raise BundleError(f"{path}: not a safetensors file: {error}") from error
    _check_state(str(path), model.state_dict(), found)
    model.load_state_dict(found, strict=True)
    return model.float().eval()


def read_architecture(bundle: Bundle) -> dict[str, Any]:
    """Return the argument of ``RagModel.from_architecture`` for a bundle's model.

    Raises:
        BundleError: As of ``load_rag_model``.
    """
    return _read_architecture(bundle) if _has_weights(bundle) else read_int8_weights(bundle)[0]


def _has_weights(bundle: Bundle) -> bool:
    # Without either, reading names the file that is missing.
    return bundle.has(WEIGHTS_NAME) or not bundle.has(INT8_NAME)


def _read_architecture(bundle: Bundle) -> dict[str, Any]:
    """Read ``encoder.json`` and check it against ``bundle.json``."""
    path = bundle.path(ENCODER_NAME)
    try:
        architecture = json.loads(path.read_bytes())
    except ValueError as error:
        raise BundleError(f"{path}: not JSON: {error}") from error
    if not isinstance(architecture, dict) or architecture.keys() - _LATER.keys() != _KEYS:
        raise BundleError(
            f"{path}: must hold {', '.join(sorted(_KEYS))}, may hold {', '.join(sorted(_LATER))}, "
            "and nothing else"
        )
    architecture = _LATER | architecture
    encoder = architecture["encoder"]
    if not isinstance(encoder, dict):
        raise BundleError(f"{path}: encoder must be the encoder's configuration")
    refused = sorted(key for key in encoder if key in _CODE_KEYS or key.startswith("_"))
    if refused:
        raise BundleError(
            f"{path}: encoder.{refused[0]} is refused: a bundle's encoder runs as the library has "
            "it, with no code or kernels from elsewhere"
        )
    info, fitted = bundle.info, bundle.info.calibration
    knots = {name: {"x": list(one.x), "y": list(one.y)} for name, one in fitted.knots.items()}
    # Either every head has a weight here, or none has.
    overlaps = {
        name: fitted.heads[name].lexical_overlap if name in fitted.heads else 0.0
        for name in CONTEXT_HEADS
    }
    overlaps = overlaps if any(overlaps.values()) else {}
    layer = {} if fitted.sentences is None else fitted.sentence_layer()._asdict()
    held = architecture["sentence_layer"]
    for name, said, found in (
        ("encoder.model_type", info.encoder.model_type, encoder.get("model_type")),
        ("encoder.hidden_size", info.encoder.hidden_size, encoder.get("hidden_size")),
        ("faithfulness", info.faithfulness, architecture["faithfulness"]),
        ("heads", sorted(info.heads), sorted(architecture["heads"])),
        ("trunk", info.trunk, architecture["trunk"]),
        ("shared_layers", info.shared_layers, architecture["shared_layers"]),
        ("granularity", info.granularity, architecture["granularity"]),
        ("calibration", knots, architecture["calibration"]),
        ("lexical_overlap", overlaps, architecture["lexical_overlap"]),
        ("sentence_layer", layer, held | {"weights": tuple(held["weights"])} if held else {}),
    ):
        if said != found:
            raise BundleError(
                f"{path}: {name} is {found!r}, but bundle.json says {said!r}; the two files belong "
                "to different models"
            )
    return architecture


def _check_state(
    file: str, wanted: dict[str, torch.Tensor], found: dict[str, torch.Tensor]
) -> None:
    """Check that a state has exactly the parameters of the model."""
    missing = sorted(wanted.keys() - found.keys())
    heads = sorted({name.split(".")[1] for name in missing if name.startswith("heads.")})
    if heads:
        raise BundleError(
            f"{file}: the weights of the head {', '.join(heads)} are missing "
            f"({missing[0]} ...); the file is incomplete"
        )
    if missing:
        raise BundleError(f"{file}: {len(missing)} parameters are missing, first {missing[0]}")
    unknown = sorted(found.keys() - wanted.keys())
    if unknown:
        raise BundleError(
            f"{file}: {len(unknown)} parameters belong to no part of the model, first {unknown[0]}"
        )
    for name, tensor in found.items():
        if tensor.shape != wanted[name].shape:
            raise BundleError(
                f"{file}: {name} has shape {tuple(tensor.shape)} instead of "
                f"{tuple(wanted[name].shape)}; encoder.json belongs to another model"
            )
        if not torch.isfinite(tensor).all():
            raise BundleError(f"{file}: {name} is not finite; the training that wrote it diverged")
