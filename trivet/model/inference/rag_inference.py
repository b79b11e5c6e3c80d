"""Select the encoders for export: inference forms, or the library's modules without one."""

from __future__ import annotations

import copy
import logging
from collections.abc import Collection, Mapping
from typing import Any, cast

from torch import Tensor, nn

from trivet.heads import DEFAULT_HEADS
from trivet.model.inference.bert import InferenceBert
from trivet.model.inference.deberta import InferenceDeberta
from trivet.model.inference.layer import Form
from trivet.model.inference.modernbert import InferenceModernBert
from trivet.model.inference.mpnet import InferenceMpnet
from trivet.model.multi_trunk import AnyTrunk, PartialTrunk, SeparateTrunk
from trivet.model.rag_model import RagModel
from trivet.model.trunk import Hidden, Trunk

logger = logging.getLogger(__name__)

InferenceEncoder = InferenceBert | InferenceDeberta | InferenceModernBert | InferenceMpnet


class InferenceTrunk(nn.Module):
    """A trunk whose encoders, one named ``shared`` or one for each head, run once each."""

    def __init__(
        self,
        encoders: Mapping[str, nn.Module],
        tops: Mapping[str, nn.ModuleList] | None = None,
    ) -> None:
        super().__init__()
        self.encoders = nn.ModuleDict(dict(encoders))
        self.tops = nn.ModuleDict(dict(tops or {}))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        segment_ids: Tensor,
        heads: Collection[str] = DEFAULT_HEADS,
    ) -> Hidden:
        """Return the hidden states for each of the heads. *Shapes:* [N, L] x 3 -> [N, L, H]."""
        windows = (input_ids, attention_mask, segment_ids)
        if self.tops:
            encoder = cast(InferenceEncoder, self.encoders["shared"])
            embedded, shared = encoder.start(*windows)
            stem = encoder.climb(encoder.layers, embedded, shared)
            tops = {name: cast(nn.ModuleList, self.tops[name]) for name in heads}
            return {name: encoder.climb(top, stem, shared) for name, top in tops.items()}
        read = {name: encoder(*windows) for name, encoder in self.encoders.items()}
        return {name: read[name if name in read else "shared"] for name in heads}


def inference_trunk(trunk: AnyTrunk, max_length: int, form: Form = "portable") -> nn.Module:
    """Return an inference module equal to ``trunk``, for up to ``max_length`` positions."""
    reason = _why_not(trunk.config)
    if reason is not None:
        logger.info("no inference module for this encoder (%s); the library's is used", reason)
        return trunk
    if isinstance(trunk, SeparateTrunk):
        encoders = {name: _encoder(trunk.part(name), max_length, form) for name in trunk.trunks}
        return InferenceTrunk(encoders).eval()
    if isinstance(trunk, PartialTrunk):
        encoder = _encoder(trunk.stem, max_length, form)
        tops = {name: encoder.convert(trunk.stem.encoder, trunk.top(name)) for name in trunk.tops}
        return InferenceTrunk({"shared": encoder}, tops).eval()
    return InferenceTrunk({"shared": _encoder(trunk, max_length, form)}).eval()


def inference_model(model: RagModel, max_length: int, form: Form = "portable") -> nn.Module:
    """Return a copy of ``model`` over ``inference_trunk``; the arguments are the same."""
    trunk = inference_trunk(model.trunk, max_length, form)
    # The memo substitutes the inference trunk for the model's own in the copy.
    return copy.deepcopy(model, memo={id(model.trunk): trunk}).eval()


def _why_not(config: Any) -> str | None:
    """Return why there is no inference form of this configuration, or ``None`` if there is."""
    if config.model_type == "bert":
        return InferenceBert.why_not(config)
    if config.model_type == "deberta-v2":
        return InferenceDeberta.why_not(config)
    if config.model_type in ("mpnet", "modernbert"):
        return None
    return f"there is none for {config.model_type}"


def _encoder(trunk: Trunk, max_length: int, form: Form) -> InferenceEncoder:
    """Return the inference form of an encoder that ``_why_not`` accepts."""
    encoder: InferenceEncoder
    prefix = trunk.prefix_attention
    if trunk.config.model_type == "bert":
        encoder = InferenceBert(trunk.encoder, form, prefix)
    elif trunk.config.model_type == "mpnet":
        encoder = InferenceMpnet(trunk.encoder, max_length, form, prefix)
    elif trunk.config.model_type == "modernbert":
        encoder = InferenceModernBert(trunk.encoder, max_length, form, prefix)
    else:
        encoder = InferenceDeberta(trunk.encoder, max_length, form, prefix)
    encoder.matches = trunk.matches
    return encoder
