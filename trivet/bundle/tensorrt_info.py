"""What an engine built for one graphics card is: the shapes it takes, and what it was built from.

An engine is no part of a bundle: it holds code for one card and one TensorRT, so it is built where
it runs and never sent anywhere. The bundle keeps this description, the machine's cache the engine.
"""

from __future__ import annotations

import hashlib
import json
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

_STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

EnginePrecision = Literal["fp32", "bf16", "fp16", "int8-qdq", "fp8-qdq"]


class ShapeRange(BaseModel):
    """One optimisation profile: the least, usual and largest size of every dimension by letter.

    Attributes:
        least: The smallest sizes the engine takes in this profile.
        usual: The sizes its kernels are tuned for.
        most: The largest sizes.
    """

    model_config = _STRICT

    least: dict[str, int]
    usual: dict[str, int]
    most: dict[str, int]


class EngineTarget(BaseModel):
    """Where an engine runs: engines of another TensorRT or another card are refused.

    Attributes:
        tensorrt: TensorRT's version, all of it.
        gpu: The card's name.
        compute_capability: ``8.9`` of an L4.
    """

    model_config = _STRICT

    tensorrt: str
    gpu: str
    compute_capability: str


class EngineInfo(BaseModel):
    """An engine that passed its parity run.

    Attributes:
        graph: The bundle's graph that it was built from.
        graph_sha256: Of that file.
        precision: What its large products are computed in, as the graph says.
        target: Where it runs.
        profiles: The shapes it takes.
        engine_sha256: Of the engine itself.
        build_seconds: How long the building took.
        date: The day it was built.
        difference: Largest difference of any probability from fp32 ONNX Runtime, over windows with
            and without padding.
        rows: Rows whose verdicts were compared; 0 where none were given.
        flipped: How many of these verdicts differ.
        auroc_loss: Most that a hallucination AUROC fell by on these rows; measured in 8 bits only.
        rmse_loss: Most that an RMSE of relevance, utilization or completeness rose by; likewise.
    """

    model_config = _STRICT

    graph: str
    graph_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    precision: EnginePrecision
    target: EngineTarget
    profiles: tuple[ShapeRange, ...] = Field(min_length=1)
    engine_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    build_seconds: float = Field(ge=0)
    date: str
    difference: float = Field(ge=0)
    rows: int = Field(default=0, ge=0)
    flipped: int = Field(default=0, ge=0)
    auroc_loss: float | None = None
    rmse_loss: float | None = None

    @property
    def key(self) -> str:
        """The name under which the cache keeps it; see ``engine_key``."""
        return engine_key(self.graph_sha256, self.precision, self.target, self.profiles)


def engine_key(
    graph_sha256: str,
    precision: EnginePrecision,
    target: EngineTarget,
    profiles: tuple[ShapeRange, ...],
) -> str:
    """Return a name that differs as soon as anything differs that an engine depends on.

    Args:
        graph_sha256: Of the ONNX file.
        precision: What it computes in.
        target: Where it runs.
        profiles: The shapes it takes.

    Returns:
        64 hexadecimal digits.
    """
    parts = {
        "graph": graph_sha256,
        "precision": precision,
        "target": target.model_dump(),
        "profiles": [profile.model_dump() for profile in profiles],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
