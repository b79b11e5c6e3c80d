"""Isotonic calibration in the graph: a rising piecewise-linear map of a logit.

Linear calibrations are folded into the last layer of their head.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from trivet.errors import BundleError
from trivet.model.architecture import KNOTS


class PiecewiseLinear(nn.Module):
    """Map of logits x to calibrated logits y, extrapolated with the outer slopes.

    The knots (x, y) are not weights but part of the bundle's architecture.

    Raises:
        BundleError: There are not 2 to 16 knots, or x or y does not rise.
    """

    bends: Tensor
    inner: Tensor

    def __init__(self, x: Sequence[float], y: Sequence[float]) -> None:
        super().__init__()
        at, to = (torch.tensor(values, dtype=torch.float64) for values in (x, y))
        rises = len(at) == len(to) and bool((at.diff() > 0).all() and (to.diff() > 0).all())
        if not 2 <= len(at) <= KNOTS or not rises:
            raise BundleError(
                f"calibration: {len(x)} knots x {list(x)} and {len(y)} values y {list(y)}; needs 2 "
                f"to {KNOTS} of each, both rising"
            )
        slopes = to.diff() / at.diff()
        self.x, self.y = tuple(map(float, x)), tuple(map(float, y))
        self.register_buffer("bends", slopes.diff().float(), persistent=False)
        self.register_buffer("inner", at[1:-1].float(), persistent=False)
        self.slope = float(slopes[0])
        self.offset = float(to[0] - slopes[0] * at[0])

    def forward(self, logits: Tensor) -> Tensor:
        """Return calibrated logits. *Shapes:* any -> the same."""
        # A line and its bends; no matmul: the quantizer would treat it like one of the encoder.
        bent = (torch.relu(logits[..., None] - self.inner) * self.bends).sum(-1)
        return logits * self.slope + self.offset + bent


def entailment_logit(logits: Tensor) -> Tensor:
    """Return the logit of P(entailment). *Shapes:* [..., 3] or [..., 2] -> [...]."""
    if logits.shape[-1] == 2:
        supported, unsupported = logits.unbind(-1)
        return supported - unsupported
    entailment, neutral, contradiction = logits.unbind(-1)
    return entailment - neutral - nn.functional.softplus(contradiction - neutral)
