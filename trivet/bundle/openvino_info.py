"""Description of the model that OpenVINO runs, and of the candidates it was chosen from."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

_STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

MOST_LOSS = 0.005
"""Largest accepted decrease of AUROC and increase of RMSE against fp32."""

Method = Literal["static", "dynamic", "half"]
"""Static int8 with calibrated activation ranges, dynamic int8 with one range per token
(``exporting.int8``), or 16-bit matmuls without int8."""


class OpenVinoCandidate(BaseModel):
    """A measured candidate: median time of one window, and largest losses against fp32."""

    model_config = _STRICT

    method: Method
    milliseconds: float = Field(gt=0)
    auroc_loss: float
    rmse_loss: float

    @property
    def fits(self) -> bool:
        """Whether both losses are within the limit."""
        return max(self.auroc_loss, self.rmse_loss) <= MOST_LOSS


class OpenVinoInfo(BaseModel):
    """The kept candidate: the fastest one whose losses are within the limit."""

    model_config = _STRICT

    file: str  # the ``.xml`` of OpenVINO, or a graph for ONNX Runtime
    weights: str | None
    method: Method
    # largest difference of an output from the fp32 graph, over the parity grid
    difference: float = Field(ge=0)
    data: str
    split: str
    rows: int = Field(gt=0)
    openvino: str  # version of OpenVINO
    date: str
    candidates: tuple[OpenVinoCandidate, ...] = Field(min_length=1)
    # whether the measuring processor adds int8 products exactly (``backends.int8_sums``); the
    # choice is not valid for processors that do not
    exact_sums: bool = True

    @property
    def precision(self) -> Literal["int8", "bf16"]:
        """Precision of the large matmuls; the rest runs in bf16."""
        return "bf16" if self.method == "half" else "int8"

    def answers(self, bf16: bool) -> str:
        """Return the key of its answers in the self-test, with bf16 or without."""
        return f"{self.file} in OpenVINO, {'bf16' if bf16 else 'fp32'}"
