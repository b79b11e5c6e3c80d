"""Memory of training: freed memory is kept, and the encoder reads batches in slices."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import platform
from collections.abc import Collection, Iterator, Sequence

import torch
from torch import Tensor, nn

from trivet.errors import ConfigError
from trivet.model.rag_model import RagModel, TokenLogits

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def refuse_too_many_windows(batch_windows: int) -> Iterator[None]:
    """Raise ``ConfigError`` that names the setting if torch runs out of memory."""
    try:
        yield
    except RuntimeError as error:
        # On a CPU the error has no class of its own.
        if not (isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)):
            raise
        raise ConfigError(
            f"optim.batch_windows ({batch_windows}) must be lower, or optim.checkpoint_layers=true "
            f"be set: {'. '.join(str(error).split('. ')[:2])}"
        ) from error


def keep_freed_memory() -> None:
    """Let glibc keep freed memory, since requesting it anew for each tensor slows torch on CPUs."""
    if platform.libc_ver()[0] != "glibc":
        return
    mallopt = ctypes.CDLL(None).mallopt
    trim_threshold, mmap_threshold, max_threshold = -1, -3, 2**31 - 1  # names of glibc's malloc.h
    if not (mallopt(mmap_threshold, max_threshold) and mallopt(trim_threshold, max_threshold)):
        logger.warning("glibc refused the malloc thresholds; training on a CPU will be slower")


def read_in_slices(
    model: RagModel, inputs: Sequence[Tensor], max_batch: int, heads: Collection[str] | None = None
) -> TokenLogits:
    """Run the encoder over at most ``max_batch`` windows of like length per call; join the logits.

    Padding beyond the longest window of a call is not read; its logits are 0. ``heads`` are those
    to compute, by default all. *Shape of each input:* [N, L]; the second is the attention mask.
    """
    lengths = inputs[1].sum(dim=-1)
    calls = -(-len(lengths) // max_batch)
    if calls <= 1:
        return model.read(*inputs, heads=heads)
    order = lengths.argsort(stable=True)
    parts = []
    for rows in order.tensor_split(calls):
        width = int(lengths[rows[-1]])
        parts.append(model.read(*(tensor[rows, :width] for tensor in inputs), heads=heads))
    width, back = inputs[0].shape[1], order.argsort()
    return {
        name: torch.cat([_widen(part[name], width) for part in parts])[back] for name in parts[0]
    }


def _widen(logits: Tensor, width: int) -> Tensor:
    missing = width - logits.shape[1]
    return nn.functional.pad(logits, (0, 0) * (logits.ndim - 2) + (0, missing))
