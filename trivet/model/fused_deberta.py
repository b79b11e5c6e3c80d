"""DeBERTa's disentangled attention by the fused kernels of the package ``flashdeberta``.

They keep no L x L scores. Only for GPUs: the kernels are written in Triton.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import nn
from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention

from trivet.errors import ConfigError

_LONGEST = 1024  # from here on, the package reads masks of another shape


def fuse_deberta_attention(trunk: nn.Module, window_size: int) -> int:
    """Let the attention of all layers run fused; parameters and their names stay.

    Args:
        trunk: Trunk of DeBERTa-v2 or v3 encoders.
        window_size: Most tokens of a window.

    Returns:
        The number of layers.

    Raises:
        ConfigError: The encoder is another one or has attention dropout, windows are too long, or
            there is no GPU or no ``flashdeberta``.
    """
    layers: list[Any] = [m for m in trunk.modules() if isinstance(m, DisentangledSelfAttention)]
    if not layers:
        _refuse("the encoder is not a DeBERTa-v2 or v3; others need no such setting")
    if any(layer.dropout.p for layer in layers):
        _refuse("the kernels have no dropout; set encoder.attention_dropout=0")
    if window_size >= _LONGEST:
        _refuse(f"window.size is {window_size}; the kernels read masks of less than {_LONGEST}")
    if not torch.cuda.is_available():
        _refuse("there is no GPU")
    _use_kernels(layers)
    return len(layers)


def _use_kernels(layers: list[Any]) -> None:
    """Replace the forward pass of these attentions, whose parameters stay."""
    try:
        from flashdeberta import FlashDisentangledSelfAttention
    except ImportError as error:
        _refuse(f"flashdeberta cannot be imported ({error}); pip install flashdeberta", error)
    for layer in layers:
        # The package's class adds nothing but its forward pass, so LoRA and hooks stay as well.
        layer.__class__ = FlashDisentangledSelfAttention


def _refuse(why: str, cause: Exception | None = None) -> NoReturn:
    """Raise ``ConfigError`` for the setting."""
    raise ConfigError(f"optim.fused_attention: {why}") from cause
