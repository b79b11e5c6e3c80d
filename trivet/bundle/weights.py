"""Load a bundle's weights into a model, strictly.

The library's own loaders fill missing parameters with random numbers. Here every parameter must be
present, expected, of the right shape and finite. Without a file of weights they are read back from
the int8 graph: each stored integer times its scale is a weight that rounds to the same integer
again, so training, calibration and export can start from a graph.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import torch
from onnx import numpy_helper
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from trivet.bundle.bundle import ENCODER_NAME, INT8_NAME, WEIGHTS_NAME, Bundle
from trivet.bundle.info import BundleInfo
from trivet.errors import BundleError, ConfigError
from trivet.heads import CONTEXT_HEADS
from trivet.model.architecture import IN_ENCODER_JSON, Architecture
from trivet.model.rag_model import RagModel

# Keys that make the library fetch and run code or kernels that no manifest covers.
_CODE_KEYS = frozenset(
    {"attn_implementation", "auto_map", "experts_implementation", "quantization_config"}
)
_SCOPE = "trunk.encoders.shared"
_LAYER_PARTS = {
    "attention_out": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "widen": "intermediate.dense",
    "narrow": "output.dense",
    "output_norm": "output.LayerNorm",
}


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
    state: dict[str, torch.Tensor] | None = None
    if _has_weights(bundle):
        architecture, path = _read_architecture(bundle), bundle.path(WEIGHTS_NAME)
    else:
        path = bundle.path(INT8_NAME)
        architecture, state = read_int8_weights(bundle)
    changed = dict(changed or {})
    encoder = {**architecture.encoder, **changed.pop("encoder", {})}
    architecture = replace(architecture, encoder=encoder, **changed)
    try:
        model = RagModel.from_architecture(architecture)
    except (KeyError, TypeError, ValueError, AttributeError, ConfigError) as error:
        raise BundleError(f"{path}: its encoder.json describes no model: {error!r}") from error
    if state is None:
        try:
            state = load_file(path)
        except SafetensorError as error:
            raise BundleError(f"{path}: not a safetensors file: {error}") from error
    _check_state(str(path), model.state_dict(), state)
    model.load_state_dict(state, strict=True)
    return model.float().eval()


def _has_weights(bundle: Bundle) -> bool:
    # Without either, reading names the file that is missing.
    return bundle.has(WEIGHTS_NAME) or not bundle.has(INT8_NAME)


def _read_architecture(bundle: Bundle) -> Architecture:
    """Read ``encoder.json``, and from ``bundle.json`` what it leaves to that."""
    path = bundle.path(ENCODER_NAME)
    try:
        described = json.loads(path.read_bytes())
    except ValueError as error:
        raise BundleError(f"{path}: not JSON: {error}") from error
    if isinstance(described, dict) and described.get("digits") == []:
        del described["digits"]  # written by earlier versions
    if not isinstance(described, dict) or described.keys() != set(IN_ENCODER_JSON):
        raise BundleError(f"{path}: must hold {', '.join(IN_ENCODER_JSON)}, and nothing else")
    encoder = described["encoder"]
    if not isinstance(encoder, dict):
        raise BundleError(f"{path}: encoder must be the encoder's configuration")
    refused = sorted(key for key in encoder if key in _CODE_KEYS or key.startswith("_"))
    if refused:
        raise BundleError(
            f"{path}: encoder.{refused[0]} is refused: a bundle's encoder runs as the library has "
            "it, with no code or kernels from elsewhere"
        )
    for name in ("model_type", "hidden_size"):
        stated = getattr(bundle.info.encoder, name)
        if stated != encoder.get(name):
            raise BundleError(
                f"{path}: encoder.{name} is {encoder.get(name)!r}, but bundle.json says "
                f"{stated!r}; the two files belong to different models"
            )
    return _architecture(bundle.info, described)


def _architecture(info: BundleInfo, described: dict[str, Any]) -> Architecture:
    """Return the architecture of ``bundle.json`` and, of the encoder, ``encoder.json``."""
    fitted = info.calibration
    overlaps: dict[str, float] = {
        name: fitted.heads[name].lexical_overlap if name in fitted.heads else 0.0
        for name in CONTEXT_HEADS
    }
    return Architecture(
        **described,
        heads=info.heads,
        faithfulness=info.faithfulness,
        trunk=info.trunk,
        shared_layers=info.shared_layers,
        granularity=info.granularity,
        prefix_attention=info.prefix_attention,
        lexical_overlap=overlaps,
        similarity=fitted.heads["relevance"].similarity if "relevance" in fitted.heads else 0.0,
        sentence_layer=fitted.sentence_layer(),
    )


def _check_state(
    file: str, wanted: dict[str, torch.Tensor], present: dict[str, torch.Tensor]
) -> None:
    """Check that a state has exactly the parameters of the model."""
    missing = sorted(wanted.keys() - present.keys())
    heads = sorted({name.split(".")[1] for name in missing if name.startswith("heads.")})
    if heads:
        raise BundleError(
            f"{file}: the weights of the head {', '.join(heads)} are missing "
            f"({missing[0]} ...); the file is incomplete"
        )
    if missing:
        raise BundleError(f"{file}: {len(missing)} parameters are missing, first {missing[0]}")
    unknown = sorted(present.keys() - wanted.keys())
    if unknown:
        raise BundleError(
            f"{file}: {len(unknown)} parameters belong to no part of the model, first {unknown[0]}"
        )
    for name, tensor in present.items():
        if tensor.shape != wanted[name].shape:
            raise BundleError(
                f"{file}: {name} has shape {tuple(tensor.shape)} instead of "
                f"{tuple(wanted[name].shape)}; encoder.json belongs to another model"
            )
        if not torch.isfinite(tensor).all():
            raise BundleError(f"{file}: {name} is not finite; the training that wrote it diverged")


def read_int8_weights(bundle: Bundle) -> tuple[Architecture, dict[str, Tensor]]:
    """Return the architecture and the parameters of a ``RagModel`` from the bundle's int8 graph.

    Raises:
        BundleError: The bundle has no int8 graph, or not that of a BERT that all heads share.
    """
    path = bundle.path(INT8_NAME)
    graph = onnx.load(path).graph
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    try:
        if bundle.info.encoder.model_type != "bert":
            raise KeyError(f"encoder.model_type is {bundle.info.encoder.model_type}, not bert")
        described = _of_graph(bundle.info, graph, stored)
        return _architecture(bundle.info, described), _state(graph, stored)
    except (KeyError, ValueError) as error:
        raise BundleError(
            f"{path}: its weights cannot be read back ({error}); train or export from the bundle "
            "with weights that it was made from"
        ) from error


def _of_graph(
    info: BundleInfo, graph: onnx.GraphProto, stored: dict[str, npt.NDArray[Any]]
) -> dict[str, Any]:
    """Return what ``encoder.json`` would say."""
    attributes = {
        node.op_type: {attribute.name: attribute for attribute in node.attribute}
        for node in graph.node
    }
    return {
        "encoder": {
            "model_type": "bert",
            "vocab_size": len(stored[f"{_SCOPE}.words.weight_int8"]),
            "hidden_size": info.encoder.hidden_size,
            "num_hidden_layers": info.encoder.layers,
            "num_attention_heads": attributes["MultiHeadAttention"]["num_heads"].i,
            "intermediate_size": len(stored[f"{_SCOPE}.layers.0.widen.bias"]),
            "max_position_embeddings": len(stored[f"{_SCOPE}.positions"]),
            "type_vocab_size": len(stored[f"{_SCOPE}.segments"]),
            "layer_norm_eps": round(attributes["LayerNormalization"]["epsilon"].f, 15),
            "pad_token_id": info.special_tokens.pad,
        },
        "dropout": 0.0,
        "pooled_support": False,
        "support_norm": None,
        "support_classes": len(stored.get("heads.support.classifier.bias", range(3))),
        "matches": f"{_SCOPE}.matches.kinds.weight" in stored,
    }


def _state(graph: onnx.GraphProto, stored: dict[str, npt.NDArray[Any]]) -> dict[str, Tensor]:
    state: dict[str, npt.NDArray[Any]] = {}
    encoder = "trunk.encoder"
    words = stored[f"{_SCOPE}.words.weight_int8"] * stored[f"{_SCOPE}.words.weight_scale"]
    state[f"{encoder}.embeddings.word_embeddings.weight"] = words
    state[f"{encoder}.embeddings.position_embeddings.weight"] = stored[f"{_SCOPE}.positions"]
    state[f"{encoder}.embeddings.token_type_embeddings.weight"] = stored[f"{_SCOPE}.segments"]
    if f"{_SCOPE}.matches.kinds.weight" in stored:
        state["trunk.matches.kinds.weight"] = stored[f"{_SCOPE}.matches.kinds.weight"]
    for kind in ("weight", "bias"):
        state[f"{encoder}.embeddings.LayerNorm.{kind}"] = stored[f"{_SCOPE}.norm.{kind}"]

    # The names of the matmuls are lost; their order is that of the layers.
    matmuls = [node for node in graph.node if node.op_type == "MatMulIntegerToFloat"]
    attention = next(node for node in graph.node if node.op_type == "MultiHeadAttention")
    count = next(attribute.i for attribute in attention.attribute if attribute.name == "num_heads")
    for number in range(len(matmuls) // 4):
        layer = f"{encoder}.encoder.layer.{number}"
        project, *others = (
            (stored[node.input[1]] * stored[node.input[3]]).T
            for node in matmuls[4 * number : 4 * number + 4]
        )
        bias = stored[f"{_SCOPE}.layers.{number}.project.bias"]
        shrink = math.sqrt(project.shape[1] / count)  # folded into the queries by the export
        for name, weight, shift, factor in zip(
            ("query", "key", "value"),
            np.split(project, 3),
            np.split(bias, 3),
            (shrink, 1.0, 1.0),
            strict=True,
        ):
            state[f"{layer}.attention.self.{name}.weight"] = weight * np.float32(factor)
            state[f"{layer}.attention.self.{name}.bias"] = shift * np.float32(factor)
        for name, weight in zip(("attention_out", "widen", "narrow"), others, strict=True):
            state[f"{layer}.{_LAYER_PARTS[name]}.weight"] = weight
        for name, theirs in _LAYER_PARTS.items():
            for kind in ("weight", "bias") if name.endswith("norm") else ("bias",):
                state[f"{layer}.{theirs}.{kind}"] = stored[
                    f"{_SCOPE}.layers.{number}.{name}.{kind}"
                ]
    # A linear layer of a head is a matmul, whose weight lost its name, and the sum with its bias.
    made_by = {node.output[0]: node for node in graph.node}
    for node in graph.node:
        for bias in (name for name in node.input if name.startswith("heads.") and name in stored):
            product = next((made_by[name] for name in node.input if name in made_by), node)
            if product.op_type != "MatMul":
                raise KeyError(f"{bias} is added to no product")
            state[bias] = stored[bias]
            state[f"{bias.removesuffix('bias')}weight"] = stored[product.input[1]].T
    return {name: torch.from_numpy(values.copy()) for name, values in state.items()}
