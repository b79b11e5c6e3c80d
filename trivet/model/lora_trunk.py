"""Low-rank adapters of a frozen encoder, one set for each head (LoRA, arXiv 2106.09685).

For training alone: ``merged`` gives the trunk that is stored, exported and run.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any

from torch import Tensor, nn

from trivet.model.architecture import DEFAULT_HEADS, AnyTrunkKind
from trivet.model.multi_trunk import SeparateTrunk
from trivet.model.trunk import Trunk

_SCALE = 2.0  # of an adapter's product


class LoraLinear(nn.Module):
    """A linear layer with frozen weights W, and adapters A and B: Wx + 2BAx, where B starts at 0.

    A library's layers (peft 0.21) cannot be built under torch's fake tensors, which the estimate of
    memory uses.
    """

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base
        self.lora_a = nn.Linear(base.in_features, rank, bias=False)
        self.lora_b = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.lora_b.weight)

    def forward(self, states: Tensor) -> Tensor:
        """Return the layer's output. *Shapes:* [..., in] -> [..., out]."""
        added: Tensor = self.lora_b(self.lora_a(states))
        plain: Tensor = self.base(states)
        return plain + _SCALE * added

    def merged(self) -> nn.Linear:
        """Return an equal plain layer with weights of its own."""
        layer = copy.deepcopy(self.base)
        layer.weight.data += _SCALE * (self.lora_b.weight @ self.lora_a.weight).detach()
        return layer


class LoraTrunk(SeparateTrunk):
    """One encoder for each head: the same frozen weights, and adapters of every linear layer.

    The weights are held once, but every head runs the encoder.
    """

    kind: AnyTrunkKind = "lora"

    def __init__(
        self, trunk: Trunk, heads: Collection[str] = DEFAULT_HEADS, rank: int = 16
    ) -> None:
        nn.Module.__init__(self)
        self.rank, self.hidden = rank, trunk.hidden
        trunk.requires_grad_(False)
        # The memo makes the copies share all tensors.
        held: dict[int, Any] = {id(one): one for one in (*trunk.parameters(), *trunk.buffers())}
        self.trunks = nn.ModuleDict({name: copy.deepcopy(trunk, dict(held)) for name in heads})
        for encoder in (self.part(name).encoder for name in heads):
            for name, layer in list(encoder.named_modules()):
                if isinstance(layer, nn.Linear):
                    encoder.set_submodule(name, LoraLinear(layer, rank))

    def merged(self) -> SeparateTrunk:
        """Return an equal trunk of separate encoders without adapters, whose weights are copies."""
        plain = SeparateTrunk.__new__(SeparateTrunk)
        nn.Module.__init__(plain)
        plain.hidden = self.hidden
        plain.trunks = nn.ModuleDict({name: _merge(self.part(name)) for name in self.trunks})
        return plain.requires_grad_(True)


def _merge(trunk: Trunk) -> Trunk:
    alone = copy.deepcopy(trunk)
    for name, layer in list(alone.encoder.named_modules()):
        if isinstance(layer, LoraLinear):
            alone.encoder.set_submodule(name, layer.merged())
    return alone
