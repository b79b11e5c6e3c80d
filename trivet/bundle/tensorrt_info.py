"""Description of a TensorRT engine: what it was built from and the shapes it takes.

An engine is machine code for one GPU model and one TensorRT version. It stays in the cache of the
machine that built it; the bundle only holds this description.
"""

from __future__ import annotations

import hashlib
import json
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

_STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

EnginePrecision = Literal["fp32", "bf16", "fp16"]


class ShapeRange(BaseModel):
    """An optimization profile: least, tuned and most sizes of every dimension, by letter."""

    model_config = _STRICT

    least: dict[str, int]
    usual: dict[str, int]
    most: dict[str, int]


class EngineTarget(BaseModel):
    """The only TensorRT version and GPU model that an engine runs on."""

    model_config = _STRICT

    tensorrt: str
    gpu: str
    compute_capability: str


class EngineInfo(BaseModel):
    """A TensorRT engine that passed the comparison with fp32."""

    model_config = _STRICT

    graph: str  # file name of the graph it was built from
    graph_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    precision: EnginePrecision
    target: EngineTarget
    profiles: tuple[ShapeRange, ...] = Field(min_length=1)
    engine_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    build_seconds: float = Field(ge=0)
    date: str
    # largest difference of a probability from fp32, on random windows
    difference: float = Field(ge=0)
    rows: int = Field(default=0, ge=0)  # number of rows whose verdicts were compared
    flipped: int = Field(default=0, ge=0)  # number of verdicts that changed
    auroc_loss: float | None = None  # largest decrease of an AUROC from fp32 on these rows
    rmse_loss: float | None = None  # largest increase of an RMSE from fp32 on these rows

    @property
    def key(self) -> str:
        """Name of the engine in the cache; see ``engine_key``."""
        return engine_key(self.graph_sha256, self.precision, self.target, self.profiles)


def engine_key(
    graph_sha256: str,
    precision: EnginePrecision,
    target: EngineTarget,
    profiles: tuple[ShapeRange, ...],
) -> str:
    """Return a digest of everything an engine depends on, as 64 hexadecimal digits."""
    parts = {
        "graph": graph_sha256,
        "precision": precision,
        "target": target.model_dump(),
        "profiles": [profile.model_dump() for profile in profiles],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
