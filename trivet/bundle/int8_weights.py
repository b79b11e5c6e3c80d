"""Weights read back from the int8 graph of a bundle without weights, such as the embedded one.

Each stored integer times its scale is a weight that rounds to the same integer again, so training,
calibration and export can start from a graph.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor

from trivet.bundle.bundle import INT8_NAME, Bundle
from trivet.errors import BundleError
from trivet.model.architecture import CONTEXT_HEADS, HEAD_NAMES

_SCOPE = "trunk.encoders.shared"
_LAYER_PARTS = {
    "attention_out": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "widen": "intermediate.dense",
    "narrow": "output.dense",
    "output_norm": "output.LayerNorm",
}


def read_int8_weights(bundle: Bundle) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the architecture and the parameters of a ``RagModel`` from the bundle's int8 graph.

    Raises:
        BundleError: The bundle has no int8 graph, or not that of a BERT that all heads share.
    """
    path = bundle.path(INT8_NAME)
    graph = onnx.load(path).graph
    stored = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    try:
        if bundle.info.encoder.model_type != "bert":
            raise KeyError(f"encoder.model_type is {bundle.info.encoder.model_type}, not bert")
        return _architecture(bundle, graph, stored), _state(graph, stored, bundle.info.heads)
    except (KeyError, ValueError) as error:
        raise BundleError(
            f"{path}: its weights cannot be read back ({error}); train or export from the bundle "
            "with weights that it was made from"
        ) from error


def _architecture(
    bundle: Bundle, graph: onnx.GraphProto, stored: dict[str, npt.NDArray[Any]]
) -> dict[str, Any]:
    info = bundle.info
    attributes = {node.op_type: {each.name: each for each in node.attribute} for node in graph.node}
    fitted = info.calibration
    knots = {name: {"x": list(one.x), "y": list(one.y)} for name, one in fitted.knots.items()}
    overlap = {
        name: fitted.heads[name].lexical_overlap if name in fitted.heads else 0.0
        for name in CONTEXT_HEADS
    }
    layer = fitted.sentences
    digits = f"{_SCOPE}.matches.digits"
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
        "heads": list(info.heads),
        "faithfulness": info.faithfulness,
        "dropout": 0.0,
        "pooled_support": False,
        "support_classes": len(stored.get("heads.support.classifier.bias", range(3))),
        "trunk": info.trunk,
        "shared_layers": info.shared_layers,
        "granularity": info.granularity,
        "matches": f"{_SCOPE}.matches.kinds.weight" in stored,
        "digits": stored[digits].tolist() if digits in stored else [],
        "calibration": knots,
        "lexical_overlap": overlap if any(overlap.values()) else {},
        "sentence_layer": {} if layer is None else layer.layer()._asdict(),
    }


def _state(
    graph: onnx.GraphProto, stored: dict[str, npt.NDArray[Any]], own_heads: Collection[str]
) -> dict[str, Tensor]:
    state: dict[str, npt.NDArray[Any]] = {}
    encoder = "trunk.encoder"
    words = stored[f"{_SCOPE}.words.weight_int8"] * stored[f"{_SCOPE}.words.weight_scale"]
    state[f"{encoder}.embeddings.word_embeddings.weight"] = words
    state[f"{encoder}.embeddings.position_embeddings.weight"] = stored[f"{_SCOPE}.positions"]
    state[f"{encoder}.embeddings.token_type_embeddings.weight"] = stored[f"{_SCOPE}.segments"]
    if f"{_SCOPE}.matches.kinds.weight" in stored:
        for name in ("kinds.weight", "digits"):
            if f"{_SCOPE}.matches.{name}" in stored:
                state[f"trunk.matches.{name}"] = stored[f"{_SCOPE}.matches.{name}"]
    for kind in ("weight", "bias"):
        state[f"{encoder}.embeddings.LayerNorm.{kind}"] = stored[f"{_SCOPE}.norm.{kind}"]

    # The names of the matmuls are lost; their order is that of the layers.
    matmuls = [node for node in graph.node if node.op_type == "MatMulIntegerToFloat"]
    heads = next(node for node in graph.node if node.op_type == "MultiHeadAttention")
    count = next(each.i for each in heads.attribute if each.name == "num_heads")
    for number in range(len(matmuls) // 4):
        own = f"{encoder}.encoder.layer.{number}"
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
            state[f"{own}.attention.self.{name}.weight"] = weight * np.float32(factor)
            state[f"{own}.attention.self.{name}.bias"] = shift * np.float32(factor)
        for name, weight in zip(("attention_out", "widen", "narrow"), others, strict=True):
            state[f"{own}.{_LAYER_PARTS[name]}.weight"] = weight
        for name, theirs in _LAYER_PARTS.items():
            for kind in ("weight", "bias") if name.endswith("norm") else ("bias",):
                state[f"{own}.{theirs}.{kind}"] = stored[f"{_SCOPE}.layers.{number}.{name}.{kind}"]
    classifiers = [node for node in graph.node if node.name.startswith("heads.node_MatMul")]
    # In their order, whatever that of the description.
    for name, node in zip([n for n in HEAD_NAMES if n in own_heads], classifiers, strict=True):
        state[f"heads.{name}.classifier.weight"] = stored[node.input[1]].T
        state[f"heads.{name}.classifier.bias"] = stored[f"heads.{name}.classifier.bias"]
    return {name: torch.from_numpy(values.copy()) for name, values in state.items()}
