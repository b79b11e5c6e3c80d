"""Chooses the encoder that is exported: our own module where there is one, else the library's."""

from __future__ import annotations

import copy
import logging

from torch import nn

from trivet.model.bert import InferenceBert
from trivet.model.deberta import InferenceDeberta
from trivet.model.rag_model import RagModel
from trivet.model.trunk import Trunk

logger = logging.getLogger(__name__)


def inference_trunk(trunk: Trunk, max_length: int, fused: bool = False) -> nn.Module:
    """Return a module that answers as ``trunk`` does, made for inference.

    Args:
        trunk: The trained trunk, in eval mode.
        max_length: The most positions a window may have.
        fused: Whether ONNX Runtime's own operators may be used; such a module can only be exported.
    """
    config = trunk.encoder.config
    reason: str | None = f"there is none for {config.model_type}"
    if config.model_type == "bert":
        reason = InferenceBert.why_not(config)
        if reason is None:
            return InferenceBert(trunk.encoder, fused=fused).eval()
    if config.model_type == "deberta-v2":
        reason = InferenceDeberta.why_not(config)
        if reason is None:
            return InferenceDeberta(trunk.encoder, max_length).eval()
    logger.info("no inference module for this encoder (%s); the library's is used", reason)
    return trunk


def inference_model(model: RagModel, max_length: int, fused: bool = False) -> nn.Module:
    """Return a copy of ``model`` over ``inference_trunk``; the arguments are the same."""
    trunk = inference_trunk(model.trunk, max_length, fused)
    # The memo makes the copy take our trunk wherever it meets the model's own, without copying it.
    return copy.deepcopy(model, memo={id(model.trunk): trunk}).eval()
