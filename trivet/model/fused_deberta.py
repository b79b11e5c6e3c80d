"""DeBERTa's disentangled attention by the fused kernels of the package ``flashdeberta``.

They keep no L x L scores. Only for GPUs: the kernels are written in Triton.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import nn
from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention

from trivet.errors import ConfigError, install_line

_LONGEST = 1024  # from here on, the package reads masks of another shape


def check_fusable(trunk: nn.Module, window_size: int, accelerator: str = "auto") -> None:
    """Refuse what the kernels cannot compute on any machine.

    Args:
        trunk: Trunk of DeBERTa-v2 or v3 encoders.
        window_size: Most tokens of a window.
        accelerator: Lightning's name of the devices of the run.

    Raises:
        ConfigError: The encoder is another one or has attention dropout, windows are too long, or
            the run uses no GPU.
    """
    layers = _attentions(trunk)
    if not layers:
        _refuse("the encoder is not a DeBERTa-v2 or v3; others need no such setting")
    if any(layer.dropout.p for layer in layers):
        _refuse("the kernels have no dropout; set encoder.attention_dropout=0")
    if window_size >= _LONGEST:
        _refuse(f"window.size is {window_size}; the kernels read masks of less than {_LONGEST}")
    if accelerator not in ("auto", "gpu", "cuda"):
        _refuse(f"the kernels are for GPUs, and run.accelerator is {accelerator}")


def fuse_deberta_attention(trunk: nn.Module) -> int:
    """Let the attention of all layers run fused; parameters and their names stay.

    Args:
        trunk: Trunk of DeBERTa-v2 or v3 encoders, as ``check_fusable`` accepts it.

    Returns:
        The number of layers.

    Raises:
        ConfigError: There is no GPU or no ``flashdeberta``.
    """
    if not torch.cuda.is_available():
        _refuse("there is no GPU")
    try:
        from flashdeberta import FlashDisentangledSelfAttention
    except ImportError as error:
        _refuse(f"flashdeberta cannot be imported ({error}); {install_line('flash')}", error)
    layers = _attentions(trunk)
    for layer in layers:
        # The package's class adds nothing but its forward pass, so LoRA and hooks stay as well.
        layer.__class__ = FlashDisentangledSelfAttention
    return len(layers)


def _attentions(trunk: nn.Module) -> list[Any]:
    return [each for each in trunk.modules() if isinstance(each, DisentangledSelfAttention)]


def _refuse(why: str, cause: Exception | None = None) -> NoReturn:
    """Raise ``ConfigError`` for the setting."""
    raise ConfigError(f"optim.fused_attention: {why}") from cause
