"""Encoders by their shape: what they compute, what they move, and how many windows a request takes.

Arithmetic alone. Operations are counted as two for each multiplication with its addition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

FRAME = 4  # [CLS] and three [SEP]


@dataclass(frozen=True)
class Shape:
    """An encoder's sizes.

    Attributes:
        name: Of the published encoder that has them.
        model_type: ``bert`` or ``deberta-v2``.
        layers: How many.
        hidden: Width H.
        heads: Attention heads a layer.
        inner: Width F of the feed-forward part.
        positions: Rows of the table of relative positions that windows can reach; 0 without one.
        score_passes: How often the scores, [heads, L, L], are written to or read from memory in a
            layer: 0 where one fused operator attends.
    """

    name: str
    model_type: str
    layers: int
    hidden: int
    heads: int
    inner: int
    positions: int
    score_passes: int

    def gflop(self, length: int) -> tuple[float, float, float]:
        """Return 10^9 operations of a window: dense products, attention, position products.

        Args:
            length: Positions of the window.
        """
        dense = 2 * length * self.hidden * (4 * self.hidden + 2 * self.inner)
        attention = 4 * length**2 * self.hidden
        of_positions = 4 * length * min(self.positions, 2 * length) * self.hidden
        scale = self.layers / 1e9
        return dense * scale, attention * scale, of_positions * scale

    def weights_mb(self, size: int) -> float:
        """Return the layers' weights in MB; ``size`` is the bytes of one."""
        return self.layers * self.hidden * (4 * self.hidden + 2 * self.inner) * size / 1e6

    def moved_mb(self, length: int, size: int) -> float:
        """Return what a window's activations move to and from memory, in MB.

        Every product and layer norm reads its input and writes its output once.

        Args:
            length: Positions of the window.
            size: Bytes of one number.
        """
        rows = length * (18 * self.hidden + 2 * self.inner)
        scores = self.score_passes * self.heads * length**2
        return self.layers * (rows + scores) * size / 1e6


# The embedded model's; ONNX Runtime attends in one operator there.
MINILM_L6 = Shape("MiniLM-L6", "bert", 6, 384, 12, 1536, 0, 0)
# Luna's. Twelve passes: products with content and with both tables, two gathers, sums, softmax.
DEBERTA_V3_LARGE = Shape("DeBERTa-v3-large", "deberta-v2", 24, 1024, 16, 4096, 512, 12)
DEBERTA_V3_BASE = Shape("DeBERTa-v3-base", "deberta-v2", 12, 768, 12, 3072, 512, 12)
TINY = Shape("tiny", "deberta-v2", 2, 64, 2, 128, 512, 12)  # shows that a command runs

SHAPES = {
    "minilm-l6": MINILM_L6,
    "deberta-v3-base": DEBERTA_V3_BASE,
    "deberta-v3-large": DEBERTA_V3_LARGE,
    "tiny": TINY,
}


def windows_of(context_tokens: int, other_tokens: int, length: int) -> int:
    """Return how many windows of ``length`` show all of a context.

    Args:
        context_tokens: Of the request.
        other_tokens: Question and response together, which every window repeats.
        length: Positions of a window.

    Raises:
        ValueError: They leave no room for context.
    """
    room = length - other_tokens - FRAME
    if room < 1:
        raise ValueError(
            f"question and response ({other_tokens} tokens) leave {room} of {length} positions "
            "for context; take longer windows"
        )
    return math.ceil(context_tokens / room)


def request_gflop(shape: Shape, context_tokens: int, other_tokens: int, length: int) -> float:
    """Return 10^9 operations of a request whose context is cut into equal windows."""
    count = windows_of(context_tokens, other_tokens, length)
    each = math.ceil(context_tokens / count) + other_tokens + FRAME
    return count * sum(shape.gflop(each))
