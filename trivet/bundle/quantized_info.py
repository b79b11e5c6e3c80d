"""What a graph with products in eight bits for cards loses on labelled rows."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

_STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

QuantizedPrecision = Literal["int8-qdq", "fp8-qdq"]


class QuantizedInfo(BaseModel):
    """A graph of ``exporting.qdq``, as it was calibrated and measured on a CPU.

    Attributes:
        file: The graph.
        precision: What its large products are computed in.
        half: What its other products are computed in.
        data: The labelled rows, on which it was calibrated and measured.
        split: Their split.
        rows: How many.
        calls: Engine calls of these rows that found the ranges.
        auroc_loss: Most that a hallucination AUROC fell by against fp32; below 0 where it rose.
        rmse_loss: Most that an RMSE of relevance, utilization or completeness rose by.
        flipped: Rows whose verdict changed.
        date: The day it was made.
    """

    model_config = _STRICT

    file: str
    precision: QuantizedPrecision
    half: Literal["bf16", "fp16"]
    data: str
    split: str
    rows: int = Field(ge=0)
    calls: int = Field(gt=0)
    auroc_loss: float
    rmse_loss: float
    flipped: int = Field(ge=0)
    date: str
