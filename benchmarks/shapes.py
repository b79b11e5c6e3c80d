"""Shapes of encoders: operations of a window, and the number of windows of a request."""

from __future__ import annotations

import math
from dataclasses import dataclass

FRAME = 4  # [CLS] and three [SEP]


@dataclass(frozen=True)
class Shape:
    """Sizes of an encoder.

    Attributes:
        name: Name of the published encoder.
        model_type: ``bert`` or ``deberta-v2``.
        layers: Number of layers.
        hidden: Hidden width H.
        heads: Attention heads of a layer.
        inner: Width of the feed-forward block.
        positions: Rows of the table of relative positions that windows can reach; 0 without one.
    """

    name: str
    model_type: str
    layers: int
    hidden: int
    heads: int
    inner: int
    positions: int

    def gflop(self, length: int) -> float:
        """Return the 10^9 operations of a window, two for each multiply-add."""
        dense = 2 * length * self.hidden * (4 * self.hidden + 2 * self.inner)
        attention = 4 * length**2 * self.hidden
        positions = 4 * length * min(self.positions, 2 * length) * self.hidden
        return (dense + attention + positions) * self.layers / 1e9


MINILM_L6 = Shape("MiniLM-L6", "bert", 6, 384, 12, 1536, 0)  # the embedded model
DEBERTA_V3_LARGE = Shape("DeBERTa-v3-large", "deberta-v2", 24, 1024, 16, 4096, 512)  # Luna's
DEBERTA_V3_BASE = Shape("DeBERTa-v3-base", "deberta-v2", 12, 768, 12, 3072, 512)
TINY = Shape("tiny", "deberta-v2", 2, 64, 2, 128, 512)  # shows that a command runs

SHAPES = {
    "minilm-l6": MINILM_L6,
    "deberta-v3-base": DEBERTA_V3_BASE,
    "deberta-v3-large": DEBERTA_V3_LARGE,
    "tiny": TINY,
}


def windows_of(context_tokens: int, other_tokens: int, length: int) -> int:
    """Return the number of windows that show all of a context.

    Raises:
        ValueError: Question and response leave no positions for context.
    """
    room = length - other_tokens - FRAME
    if room < 1:
        raise ValueError(
            f"question and response ({other_tokens} tokens) leave {room} of {length} positions "
            "for context; take longer windows"
        )
    return math.ceil(context_tokens / room)
