"""What OpenVINO runs of a bundle, and how it was chosen: by measured loss, then by speed.

The candidates are compared with the fp32 graph on labelled rows, because a norm of differences
says nothing of verdicts: a weight rounded badly may cost nothing, and one rounded well much.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

_STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

MOST_LOSS = 0.005
"""What AUROC may fall and RMSE may rise by against fp32."""

Method = Literal["static", "dynamic", "half"]
"""Static int8 with calibrated activation ranges, dynamic int8 with one range per token
(``exporting.int8``), or 16-bit matmuls without int8."""


class OpenVinoCandidate(BaseModel):
    """One way to run a bundle, as it was measured.

    Attributes:
        method: How it rounds.
        milliseconds: Median time of one window, over the same engine calls for all candidates.
        auroc_loss: Most that a hallucination AUROC fell by; below 0 where it rose.
        rmse_loss: Most that an RMSE of relevance, utilization or completeness rose by.
    """

    model_config = _STRICT

    method: Method
    milliseconds: float = Field(gt=0)
    auroc_loss: float
    rmse_loss: float

    @property
    def fits(self) -> bool:
        """Whether no measure lost more than it may."""
        return max(self.auroc_loss, self.rmse_loss) <= MOST_LOSS


class OpenVinoInfo(BaseModel):
    """The candidate that was kept: the fastest of those that lose little enough.

    Attributes:
        file: What OpenVINO reads: its own ``.xml``, or a graph for ONNX Runtime.
        weights: The weights beside an ``.xml``.
        method: How it rounds.
        difference: Largest difference of any output from the fp32 graph, over the parity grid.
        data: The labelled rows it was chosen on.
        split: Their split.
        rows: How many.
        openvino: OpenVINO's version at the choice.
        date: The day of the choice.
        candidates: All that were measured, the kept one included.
        exact_sums: Whether the processor of the choice adds int8 products exactly
            (``backends.int8_sums``); what was measured there says nothing of one that does not.
    """

    model_config = _STRICT

    file: str
    weights: str | None
    method: Method
    difference: float = Field(ge=0)
    data: str
    split: str
    rows: int = Field(gt=0)
    openvino: str
    date: str
    candidates: tuple[OpenVinoCandidate, ...] = Field(min_length=1)
    exact_sums: bool = True

    @property
    def precision(self) -> Literal["int8", "bf16"]:
        """What its large products are computed in; what else there is runs in bf16 either way."""
        return "bf16" if self.method == "half" else "int8"

    def answers(self, bf16: bool) -> str:
        """Return the name under which the self-test knows what it answers, with bf16 or without."""
        return f"{self.file} in OpenVINO, {'bf16' if bf16 else 'fp32'}"
