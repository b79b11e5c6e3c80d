"""All that describes a model besides its weights. Imports neither torch nor numpy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, Self

from trivet.heads import DEFAULT_HEADS, HeadName

TrunkKind = Literal["shared", "separate", "partial"]
Granularity = Literal["token", "example"]
Reduction = Literal["weakest_token", "weakest_sentence", "two_weakest_sentences"]


class SentenceLayer(NamedTuple):
    """A linear layer over the logit of a sentence's mean support and its counted features.

    ``trivet calibrate`` fits it on labelled sentences; without that it changes nothing.
    """

    scale: float = 1.0  # factor of the logit, > 0
    shift: float = 0.0
    weights: tuple[float, ...] = ()  # of ``data.sentence_features``; empty: all 0


NO_LAYER = SentenceLayer()
"""The layer that changes nothing."""


@dataclass(frozen=True)
class Architecture:
    """All that describes a model besides its weights.

    ``encoder.json`` holds the fields of ``IN_ENCODER_JSON``; the others are in ``bundle.json``.

    Attributes:
        encoder: Configuration of the encoder, as the library writes it; empty: that of the trunk.
        heads: Heads, those of the trunk; by default all but evidence. The outputs that need
            another are None.
        faithfulness: Part of a response that decides.
        dropout: Dropout before each head's classifier.
        pooled_support: Whether the support head has the dense layer of an NLI checkpoint's head.
        support_classes: 3, or 2 for supported and unsupported.
        support_norm: Epsilon of the layer norm in the support head, if it has one.
        trunk: Whether the heads share the encoder, have one each, or share its lower layers.
        shared_layers: Number of shared layers of a partial trunk; ``None`` otherwise.
        granularity: ``token``: logits for each position. ``example``: the logits of the first
            position hold for the whole window; evidence has states for each position all the same.
        prefix_attention: Whether contexts and question do not see the response (``model.trunk``).
        matches: Whether encoders have an exact-match embedding.
        lexical_overlap: Weights of lexical overlap in the logits of the context heads; 0 by
            default. Fitted in calibration, since the encoder knows the rows that it is trained on.
        similarity: Weight of the similarity of question and context sentence, by the states of the
            evidence head, in the logits of the relevance head; fitted likewise.
        sentence_layer: Layer over each response sentence's support and features, fitted likewise.
    """

    encoder: Mapping[str, Any] = field(default_factory=dict)
    heads: tuple[HeadName, ...] = DEFAULT_HEADS
    faithfulness: Reduction = "weakest_sentence"
    dropout: float = 0.0
    pooled_support: bool = False
    support_classes: int = 3
    support_norm: float | None = None
    trunk: TrunkKind = "shared"
    shared_layers: int | None = None
    granularity: Granularity = "token"
    prefix_attention: bool = False
    matches: bool = False
    lexical_overlap: Mapping[str, float] = field(default_factory=dict)
    similarity: float = 0.0
    sentence_layer: SentenceLayer = NO_LAYER

    def to_json(self) -> dict[str, Any]:
        """Return the architecture as JSON types."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values |= {"heads": list(self.heads), "sentence_layer": self.sentence_layer._asdict()}
        return values | {"lexical_overlap": dict(self.lexical_overlap)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the architecture that ``to_json`` returned."""
        layer = values["sentence_layer"]
        layer = SentenceLayer(layer["scale"], layer["shift"], tuple(layer["weights"]))
        return cls(**{**values, "heads": tuple(values["heads"]), "sentence_layer": layer})


IN_ENCODER_JSON = (
    *("encoder", "dropout", "pooled_support", "support_classes", "support_norm"),
    "matches",
)
"""Fields of ``Architecture`` that ``bundle.json`` lacks."""
