"""Trunks of every kind from one encoder."""

from __future__ import annotations

from collections.abc import Collection

from trivet.errors import ConfigError
from trivet.model.architecture import DEFAULT_HEADS, TrunkKind
from trivet.model.multi_trunk import AnyTrunk, PartialTrunk, SeparateTrunk
from trivet.model.trunk import Trunk


def make_trunk(
    trunk: Trunk,
    kind: TrunkKind,
    shared_layers: int | None = None,
    heads: Collection[str] = DEFAULT_HEADS,
) -> AnyTrunk:
    """Make a trunk of any kind for some heads from an encoder, which becomes part of it.

    Raises:
        ConfigError: The kind is unknown, or the encoder cannot be split like this.
    """
    if kind == "shared":
        return trunk
    if kind == "separate":
        return SeparateTrunk(trunk, heads)
    if kind != "partial":
        raise ConfigError(f"encoder.trunk ({kind}) must be shared, separate or partial")
    if shared_layers is None:
        raise ConfigError("encoder.shared_layers must be given for encoder.trunk: partial")
    return PartialTrunk(trunk, shared_layers, heads)
