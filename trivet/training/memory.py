"""Memory of training: freed memory is kept, and the encoder reads long batches in slices."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import platform
from collections.abc import Collection, Iterator, Sequence

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from trivet.errors import ConfigError
from trivet.model.rag_model import RagModel, TokenLogits

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def refuse_too_many_windows(call_windows: int) -> Iterator[None]:
    """Raise ``ConfigError`` that names the setting if torch runs out of memory."""
    try:
        yield
    except RuntimeError as error:
        # On a CPU the error has no class of its own.
        if not (isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)):
            raise
        raise ConfigError(
            f"optim.call_windows ({call_windows}) must be lower, or optim.checkpoint_layers=true "
            f"be set: {'. '.join(str(error).split('. ')[:2])}"
        ) from error


def keep_freed_memory() -> None:
    """Let glibc keep freed memory, since requesting it anew for each tensor slows torch on CPUs."""
    if platform.libc_ver()[0] != "glibc":
        return
    mallopt = ctypes.CDLL(None).mallopt
    trim_threshold, mmap_threshold, most = -1, -3, 2**31 - 1  # names of glibc's malloc.h
    if not (mallopt(mmap_threshold, most) and mallopt(trim_threshold, most)):
        logger.warning("glibc refused the malloc thresholds; training on a CPU will be slower")


def read_in_slices(
    model: RagModel, inputs: Sequence[Tensor], most: int, heads: Collection[str] | None = None
) -> TokenLogits:
    """Run the encoder over at most ``most`` windows per call and concatenate the logits.

    The backward pass computes a slice again, with the same dropout, since only its logits are kept;
    the last slice comes first there and keeps its activations. ``heads`` are those to compute, by
    default all. *Shape of each input:* [N, L].
    """
    calls = -(-len(inputs[0]) // most)
    if calls <= 1:
        return model.read(*inputs, heads=heads)
    slices = list(zip(*(tensor.tensor_split(calls) for tensor in inputs), strict=True))
    if torch.is_grad_enabled():
        parts = [
            checkpoint(model.read, *part, heads=heads, use_reentrant=False) for part in slices[:-1]
        ]
    else:
        parts = [model.read(*part, heads=heads) for part in slices[:-1]]
    parts.append(model.read(*slices[-1], heads=heads))
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
