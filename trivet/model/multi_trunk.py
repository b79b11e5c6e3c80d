"""Trunks of every kind: with private layers for each head, to measure the effect of sharing.

Luna (arXiv 2406.00975), 8.2, supposes that heads that share an encoder help each other. ``shared``
is ``trunk.Trunk``; ``separate`` has an encoder for each head; ``partial`` shares the embeddings and
the lower layers. All copies start from the same weights.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable
from typing import Any, cast

from torch import Tensor, nn

from trivet.errors import ConfigError
from trivet.heads import DEFAULT_HEADS
from trivet.model.architecture import TrunkKind
from trivet.model.trunk import Hidden, Trunk

_BERT_SHAPED = ("bert", "roberta", "xlm-roberta")
_SPLITTABLE = (*_BERT_SHAPED, "deberta-v2", "mpnet")


class SeparateTrunk(nn.Module):
    """One encoder for each head: the given one and copies."""

    kind: TrunkKind = "separate"
    shared_layers: int | None = None

    def __init__(self, trunk: Trunk, heads: Collection[str] = DEFAULT_HEADS) -> None:
        super().__init__()
        first, *others = heads
        self.trunks = nn.ModuleDict({first: trunk})
        self.trunks.update({name: copy.deepcopy(trunk) for name in others})
        self.hidden = trunk.hidden

    def part(self, name: str) -> Trunk:
        """Return the encoder of a head."""
        return cast(Trunk, self.trunks[name])

    @property
    def config(self) -> Any:
        """Configuration of each encoder."""
        return self.part(next(iter(self.trunks))).config

    def shared_parameters(self) -> list[nn.Parameter]:
        """Return no parameters; the heads share none."""
        return []

    def own_parts(self, name: str) -> list[nn.Module]:
        """Return the parts that no other head reads: the encoder of the head."""
        return [self.part(name)]

    def remove_head(self, name: str) -> None:
        """Remove the encoder of a head."""
        del self.trunks[name]

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        segment_ids: Tensor,
        heads: Collection[str] | None = None,
    ) -> Hidden:
        """Return hidden states of some heads, by default all. *Shapes:* [N, L] x 3 -> [N, L, H]."""
        windows = (input_ids, attention_mask, segment_ids)
        wanted = self.trunks if heads is None else heads
        return {name: self.part(name).encode(*windows) for name in wanted}


class PartialTrunk(nn.Module):
    """Shared embeddings and lower layers, and private upper layers for each head.

    The table of relative positions of DeBERTa and MPNet is shared.

    Raises:
        ConfigError: ``shared_layers`` is out of range, or this kind of encoder cannot be split.
    """

    kind: TrunkKind = "partial"

    def __init__(
        self, trunk: Trunk, shared_layers: int, heads: Collection[str] = DEFAULT_HEADS
    ) -> None:
        super().__init__()
        model_type = trunk.config.model_type
        if model_type not in _SPLITTABLE:
            raise ConfigError(
                f"encoder.trunk: partial splits {', '.join(_SPLITTABLE)} encoders, and this is "
                f"{model_type}; choose shared or separate"
            )
        layers = cast(nn.ModuleList, cast(Any, trunk.encoder).encoder.layer)
        if not 1 <= shared_layers < len(layers):
            raise ConfigError(
                f"encoder.shared_layers ({shared_layers}) must be 1 to {len(layers) - 1} for an "
                f"encoder of {len(layers)} layers"
            )
        self.shared_layers = shared_layers
        self.hidden = trunk.hidden
        self.tops = nn.ModuleDict({name: copy.deepcopy(layers[shared_layers:]) for name in heads})
        cast(Any, trunk.encoder).encoder.layer = layers[:shared_layers]
        self.stem = trunk

    def top(self, name: str) -> nn.ModuleList:
        """Return the upper layers of a head."""
        return cast(nn.ModuleList, self.tops[name])

    @property
    def config(self) -> Any:
        """Configuration of the encoder before the split."""
        return self.stem.config

    def shared_parameters(self) -> list[nn.Parameter]:
        """Return the parameters of the shared layers."""
        return list(self.stem.parameters())

    def own_parts(self, name: str) -> list[nn.Module]:
        """Return the parts that no other head reads: the upper layers of the head."""
        return [self.top(name)]

    def remove_head(self, name: str) -> None:
        """Remove the upper layers of a head."""
        del self.tops[name]

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        segment_ids: Tensor,
        heads: Collection[str] | None = None,
    ) -> Hidden:
        """Return hidden states of some heads, by default all. *Shapes:* [N, L] x 3 -> [N, L, H]."""
        stem = self.stem.encode(input_ids, attention_mask, segment_ids)
        mask = self.stem.mask(attention_mask, segment_ids)
        positions = self._positions(stem)
        return {
            name: _run_layers(stem, mask, self.top(name), positions)
            for name in (self.tops if heads is None else heads)
        }

    def _positions(self, hidden: Tensor) -> dict[str, Tensor]:
        """Return the relative positions for the layers of DeBERTa and MPNet; empty for others."""
        if self.config.model_type in _BERT_SHAPED:
            return {}
        encoder = cast(Any, self.stem.encoder).encoder
        if self.config.model_type == "mpnet":
            return {"position_bias": encoder.position_bias(hidden)}
        return {
            "relative_pos": encoder.get_rel_pos(hidden),
            "rel_embeddings": encoder.get_rel_embedding(),
        }


AnyTrunk = Trunk | SeparateTrunk | PartialTrunk


def _run_layers(
    hidden: Tensor, mask: Tensor, layers: Iterable[nn.Module], positions: dict[str, Tensor]
) -> Tensor:
    """Run layers in sequence. *Shapes:* [N, L, H], [N, 1, 1 or L, L] -> [N, L, H]."""
    for layer in layers:
        output = layer(hidden, mask, **positions)
        hidden = output[0] if isinstance(output, tuple) else output
    return hidden


def make_trunk(
    trunk: Trunk,
    kind: TrunkKind,
    shared_layers: int | None = None,
    heads: Collection[str] = DEFAULT_HEADS,
) -> AnyTrunk:
    """Make a trunk of any kind for some heads from an encoder, which becomes part of it.

    Raises:
        ConfigError: The encoder cannot be split like this.
    """
    if kind == "shared":
        return trunk
    if kind == "separate":
        return SeparateTrunk(trunk, heads)
    if shared_layers is None:
        raise ConfigError("encoder.shared_layers must be given for encoder.trunk: partial")
    return PartialTrunk(trunk, shared_layers, heads)
