"""Descriptions of what backends run: the model for OpenVINO, and the engines of TensorRT.

An engine is machine code for one GPU model and one TensorRT version. It stays in the cache of the
machine that built it; the bundle only holds its description.
"""

from __future__ import annotations

import hashlib
import json
from typing import Literal

from pydantic import Field

from trivet.bundle.manifest import Part

MAX_LOSS = 0.005
"""Largest accepted decrease of AUROC and increase of RMSE against fp32."""

Method = Literal["static", "dynamic", "half"]
"""Static int8 with calibrated activation ranges, dynamic int8 with one range per token
(``exporting.int8``), or 16-bit matmuls without int8."""


class OpenVinoCandidate(Part):
    """A measured candidate: median time of one window, and largest losses against fp32."""

    method: Method
    milliseconds: float = Field(gt=0)
    auroc_loss: float
    rmse_loss: float

    @property
    def fits(self) -> bool:
        """Whether both losses are within the limit."""
        return max(self.auroc_loss, self.rmse_loss) <= MAX_LOSS


class OpenVinoInfo(Part):
    """The kept candidate: the fastest one whose losses are within the limit."""

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
    # whether the measuring processor adds int8 products exactly (``backends.onnx_runtime``); the
    # choice is not valid for processors that do not
    exact_sums: bool = True

    @property
    def precision(self) -> Literal["int8", "bf16"]:
        """Precision of the large matmuls; the rest runs in bf16."""
        return "bf16" if self.method == "half" else "int8"

    def answers(self, bf16: bool) -> str:
        """Return the key of its answers in the self-test, with bf16 or without."""
        return f"{self.file} in OpenVINO, {'bf16' if bf16 else 'fp32'}"


EnginePrecision = Literal["fp32", "bf16", "fp16"]


class ShapeRange(Part):
    """An optimization profile: least, tuned and most sizes of every dimension, by letter."""

    least: dict[str, int]
    usual: dict[str, int]
    most: dict[str, int]


class EngineTarget(Part):
    """The only TensorRT version and GPU model that an engine runs on."""

    tensorrt: str
    gpu: str
    compute_capability: str


class EngineInfo(Part):
    """A TensorRT engine that passed the comparison with fp32."""

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
