"""Chooses the encoders that are exported: our own modules, or the library's where we have none."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, cast

from torch import Tensor, nn

from trivet.model.inference.bert import InferenceBert
from trivet.model.inference.deberta import InferenceDeberta
from trivet.model.inference.layer import Form
from trivet.model.multi_trunk import AnyTrunk, PartialTrunk, SeparateTrunk
from trivet.model.rag_model import RagModel
from trivet.model.trunk import Hidden, Trunk

logger = logging.getLogger(__name__)


class _InferenceEncoder(Protocol):
    """What our own encoders have in common; all are modules, windows in and hidden states out."""

    layers: nn.ModuleList

    def convert(self, encoder: Any, layers: Iterable[Any]) -> nn.ModuleList: ...

    def start(
        self, input_ids: Tensor, attention_mask: Tensor, segment_ids: Tensor
    ) -> tuple[Tensor, tuple[Tensor, ...]]: ...

    def climb(
        self, layers: Iterable[nn.Module], hidden: Tensor, given: tuple[Tensor, ...]
    ) -> Tensor: ...


class InferenceTrunk(nn.Module):
    """A trunk for inference: encoders that are run once each, and who reads which.

    Args:
        encoders: One for all heads under the name ``shared``, or one for each by its name.
        tops: Upper layers of each head, as the shared encoder's ``convert`` made them; empty where
            a head has none of its own.
    """

    def __init__(
        self,
        encoders: Mapping[str, nn.Module],
        tops: Mapping[str, nn.ModuleList] | None = None,
    ) -> None:
        super().__init__()
        self.encoders = nn.ModuleDict(dict(encoders))
        self.tops = nn.ModuleDict(dict(tops or {}))

    def forward(self, input_ids: Tensor, attention_mask: Tensor, segment_ids: Tensor) -> Hidden:
        """Return each head's hidden states. *Shapes:* [N, L] x 3 -> [N, L, H] a head."""
        windows = (input_ids, attention_mask, segment_ids)
        if self.tops:
            return self._split(cast(_InferenceEncoder, self.encoders["shared"]), *windows)
        read = {name: encoder(*windows) for name, encoder in self.encoders.items()}
        return Hidden(*(read[name if name in read else "shared"] for name in Hidden._fields))

    def _split(self, encoder: _InferenceEncoder, *windows: Tensor) -> Hidden:
        embedded, given = encoder.start(*windows)
        stem = encoder.climb(encoder.layers, embedded, given)
        return Hidden(
            *(
                encoder.climb(cast(nn.ModuleList, self.tops[name]), stem, given)
                for name in Hidden._fields
            )
        )


def inference_trunk(trunk: AnyTrunk, max_length: int, form: Form = "portable") -> nn.Module:
    """Return a module that answers as ``trunk`` does, made for inference.

    Args:
        trunk: The trained trunk, of any kind, in eval mode.
        max_length: The most positions a window may have.
        form: How to attend; a BERT for ONNX Runtime can only be exported.
    """
    reason = _why_not(trunk.config)
    if reason is not None:
        logger.info("no inference module for this encoder (%s); the library's is used", reason)
        return trunk
    if isinstance(trunk, SeparateTrunk):
        encoders = {name: _encoder(trunk.part(name), max_length, form) for name in Hidden._fields}
        return InferenceTrunk(encoders).eval()
    if isinstance(trunk, PartialTrunk):
        encoder = _encoder(trunk.stem, max_length, form)
        tops = {
            name: encoder.convert(trunk.stem.encoder, trunk.top(name)) for name in Hidden._fields
        }
        return InferenceTrunk({"shared": encoder}, tops).eval()
    return InferenceTrunk({"shared": _encoder(trunk, max_length, form)}).eval()


def inference_model(model: RagModel, max_length: int, form: Form = "portable") -> nn.Module:
    """Return a copy of ``model`` over ``inference_trunk``; the arguments are the same."""
    trunk = inference_trunk(model.trunk, max_length, form)
    # The memo makes the copy take our trunk wherever it meets the model's own, without copying it.
    return copy.deepcopy(model, memo={id(model.trunk): trunk}).eval()


def _why_not(config: Any) -> str | None:
    """Say why an encoder of this configuration must run as the library has it, if it must."""
    if config.model_type == "bert":
        return InferenceBert.why_not(config)
    if config.model_type == "deberta-v2":
        return InferenceDeberta.why_not(config)
    return f"there is none for {config.model_type}"


def _encoder(trunk: Trunk, max_length: int, form: Form) -> InferenceBert | InferenceDeberta:
    """Return our own module for one encoder of a kind that ``_why_not`` has nothing against."""
    encoder: InferenceBert | InferenceDeberta
    if trunk.config.model_type == "bert":
        encoder = InferenceBert(trunk.encoder, form)
    else:
        encoder = InferenceDeberta(trunk.encoder, max_length, form)
    encoder.matches = trunk.matches
    return encoder
