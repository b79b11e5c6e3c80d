"""Low-rank adapters of a frozen encoder, one set for each head (LoRA, arXiv 2106.09685), by peft.

For training alone: ``merged`` gives the trunk that is stored, exported and run.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any

from torch import nn

from trivet.model.architecture import DEFAULT_HEADS, AnyTrunkKind
from trivet.model.multi_trunk import SeparateTrunk
from trivet.model.trunk import Trunk

_SCALE = 2  # of an adapter's product: alpha / rank


class LoraTrunk(SeparateTrunk):
    """One encoder for each head: the same frozen weights, and adapters of every linear layer.

    The weights are held once, but every head runs the encoder. The heads are not peft's named
    adapters of one encoder, because a layer that the backward pass repeats would take the last one.
    """

    kind: AnyTrunkKind = "lora"

    def __init__(
        self, trunk: Trunk, heads: Collection[str] = DEFAULT_HEADS, rank: int = 16
    ) -> None:
        from peft import LoraConfig, inject_adapter_in_model

        nn.Module.__init__(self)
        self.rank, self.hidden = rank, trunk.hidden
        trunk.requires_grad_(False)
        # The memo makes the copies share all tensors.
        held: dict[int, Any] = {id(one): one for one in (*trunk.parameters(), *trunk.buffers())}
        self.trunks = nn.ModuleDict({name: copy.deepcopy(trunk, dict(held)) for name in heads})
        for name in heads:
            adapters = LoraConfig(r=rank, lora_alpha=_SCALE * rank, target_modules="all-linear")
            inject_adapter_in_model(adapters, self.part(name).encoder)

    def merged(self) -> SeparateTrunk:
        """Return an equal trunk of separate encoders without adapters, whose weights are copies."""
        plain = SeparateTrunk.__new__(SeparateTrunk)
        nn.Module.__init__(plain)
        plain.hidden = self.hidden
        plain.trunks = nn.ModuleDict({name: _merge(self.part(name)) for name in self.trunks})
        return plain.requires_grad_(True)


def _merge(trunk: Trunk) -> Trunk:
    from peft.tuners.lora import LoraLayer

    alone = copy.deepcopy(trunk)
    for name, layer in list(alone.encoder.named_modules()):
        if isinstance(layer, LoraLayer):
            layer.merge()
            alone.encoder.set_submodule(name, layer.get_base_layer())
    return alone
