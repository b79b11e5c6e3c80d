"""Trunks in which heads have layers of their own, for the question what sharing is worth.

Luna (arXiv 2406.00975), 8.2, supposes that heads that share an encoder help each other. ``shared``
is ``trunk.Trunk``; ``separate`` gives every head a whole encoder; ``partial`` shares the embeddings
and the lower layers. Every copy starts from the same checkpoint's weights.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, cast

from torch import Tensor, nn

from trivet.model.architecture import TrunkKind
from trivet.model.trunk import Hidden, Trunk
from trivet.records import ConfigError

# What a layer of each family takes is known here; another family's may differ in anything.
_BERT_SHAPED = ("bert", "roberta", "xlm-roberta")
_SPLITTABLE = (*_BERT_SHAPED, "deberta-v2")


class SeparateTrunk(nn.Module):
    """One whole encoder a head.

    Args:
        trunk: Taken over by one head; the others get copies.
    """

    kind: TrunkKind = "separate"
    shared_layers: int | None = None

    def __init__(self, trunk: Trunk) -> None:
        super().__init__()
        first, *others = Hidden._fields
        self.trunks = nn.ModuleDict({first: trunk})
        self.trunks.update({name: copy.deepcopy(trunk) for name in others})
        self.hidden = trunk.hidden

    def part(self, name: str) -> Trunk:
        """Return a head's own encoder."""
        return cast(Trunk, self.trunks[name])

    @property
    def config(self) -> Any:
        """The library's configuration, the same for every encoder."""
        return self.part("support").config

    def encoder_config(self) -> dict[str, Any]:
        """Return the description of one encoder; see ``Trunk.encoder_config``."""
        return self.part("support").encoder_config()

    def check_window(self, size: int) -> None:
        """Refuse windows that the encoders cannot read; see ``Trunk.check_window``."""
        self.part("support").check_window(size)

    def shared_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that every head reads through: none."""
        return []

    def forward(self, input_ids: Tensor, attention_mask: Tensor, segment_ids: Tensor) -> Hidden:
        """Return each head's hidden states. *Shapes:* [N, L] x 3 -> [N, L, H] a head."""
        return Hidden(
            *(
                self.part(name).encode(input_ids, attention_mask, segment_ids)
                for name in Hidden._fields
            )
        )


class PartialTrunk(nn.Module):
    """Shared embeddings and lower layers, and private upper layers for each head.

    DeBERTa's table of relative positions counts as embeddings: it is shared.

    Args:
        trunk: Taken over; keeps its embeddings and lower layers.
        shared_layers: How many layers are shared, 1 to the encoder's layers - 1.

    Raises:
        ConfigError: ``shared_layers`` is out of range, or layers of this kind of encoder are not
            known here.
    """

    kind: TrunkKind = "partial"

    def __init__(self, trunk: Trunk, shared_layers: int) -> None:
        super().__init__()
        model_type = trunk.config.model_type
        if model_type not in _SPLITTABLE:
            raise ConfigError(
                f"encoder.trunk: partial splits {', '.join(_SPLITTABLE)} encoders, and this is "
                f"{model_type}; choose shared or separate"
            )
        layers = _layers(trunk)
        if not 1 <= shared_layers < len(layers):
            raise ConfigError(
                f"encoder.shared_layers ({shared_layers}) must be 1 to {len(layers) - 1} for an "
                f"encoder of {len(layers)} layers"
            )
        self.shared_layers = shared_layers
        self.hidden = trunk.hidden
        self.tops = nn.ModuleDict(
            {name: copy.deepcopy(layers[shared_layers:]) for name in Hidden._fields}
        )
        cast(Any, trunk.encoder).encoder.layer = layers[:shared_layers]
        self.stem = trunk

    def top(self, name: str) -> nn.ModuleList:
        """Return a head's own upper layers."""
        return cast(nn.ModuleList, self.tops[name])

    @property
    def config(self) -> Any:
        """The library's configuration of the encoder before it was split."""
        return self.stem.config

    def encoder_config(self) -> dict[str, Any]:
        """Return the description of the whole encoder; see ``Trunk.encoder_config``."""
        return self.stem.encoder_config()

    def check_window(self, size: int) -> None:
        """Refuse windows that the encoder cannot read; see ``Trunk.check_window``."""
        self.stem.check_window(size)

    def shared_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that every head reads through: those of the stem."""
        return list(self.stem.parameters())

    def forward(self, input_ids: Tensor, attention_mask: Tensor, segment_ids: Tensor) -> Hidden:
        """Return each head's hidden states. *Shapes:* [N, L] x 3 -> [N, L, H] a head."""
        stem = self.stem.encode(input_ids, attention_mask, segment_ids)
        mask = self.stem.key_mask(attention_mask)
        positions = self._positions(stem)
        return Hidden(*(_climb(stem, mask, self.top(name), positions) for name in Hidden._fields))

    def _positions(self, hidden: Tensor) -> dict[str, Tensor]:
        """Return what DeBERTa's layers need of relative positions; nothing for others."""
        if self.config.model_type in _BERT_SHAPED:
            return {}
        encoder = cast(Any, self.stem.encoder).encoder
        return {
            "relative_pos": encoder.get_rel_pos(hidden),
            "rel_embeddings": encoder.get_rel_embedding(),
        }


AnyTrunk = Trunk | SeparateTrunk | PartialTrunk


def make_trunk(trunk: Trunk, kind: TrunkKind, shared_layers: int | None = None) -> AnyTrunk:
    """Make a trunk of any kind from one encoder, which is taken over.

    Args:
        trunk: The encoder.
        kind: Which trunk.
        shared_layers: Of a partial trunk; the others do not read it.

    Raises:
        ConfigError: The kind is unknown, or the encoder cannot be split so.
    """
    if kind == "shared":
        return trunk
    if kind == "separate":
        return SeparateTrunk(trunk)
    if kind != "partial":
        raise ConfigError(f"encoder.trunk ({kind}) must be shared, separate or partial")
    if shared_layers is None:
        raise ConfigError("encoder.shared_layers must be given for encoder.trunk: partial")
    return PartialTrunk(trunk, shared_layers)


def _layers(trunk: Trunk) -> nn.ModuleList:
    return cast(nn.ModuleList, cast(Any, trunk.encoder).encoder.layer)


def _climb(
    hidden: Tensor, mask: Tensor, layers: Iterable[nn.Module], positions: dict[str, Tensor]
) -> Tensor:
    """Run layers of the library one after another. *Shapes:* [N, L, H], [N, 1, 1, L]."""
    for layer in layers:
        output = layer(hidden, mask, **positions)
        hidden = output[0] if isinstance(output, tuple) else output
    return hidden
