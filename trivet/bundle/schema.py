"""The contents of ``bundle.json``: what a model is, what it was trained on and how it scored.

Window settings and thresholds stand here because they belong to the weights: a model that was
trained on windows of 512 is another model on windows of 256. No serving flag changes them.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from trivet.bundle.openvino_info import OpenVinoInfo
from trivet.bundle.tensorrt_info import EngineInfo
from trivet.model.architecture import Granularity, HeadName, Reduction, TrunkKind
from trivet.records import BundleError

SCHEMA_VERSION = 1

_STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

Probability = Annotated[float, Field(ge=0.0, le=1.0)]
GraphPrecision = Literal["fp32", "int8", "bf16", "fp16"]


class _Part(BaseModel):
    """A part of ``bundle.json``: exact types, no unknown keys, no NaN, never changed in place."""

    model_config = _STRICT


@dataclass(config=_STRICT)
class Thresholds:
    """Where a probability becomes a verdict; chosen on development data.

    Attributes:
        adherence: A response whose faithfulness lies below it counts as hallucinated.
        sentence: A sentence whose support lies below it counts as unsupported.
        span: A token whose support lies below it belongs to an unsupported span.
    """

    adherence: Probability
    sentence: Probability
    span: Probability


class EncoderInfo(_Part):
    """The encoder: its architecture, where its first weights came from and their licence."""

    model_type: str
    hidden_size: int = Field(gt=0)
    layers: int = Field(gt=0)
    source: str
    licence: str


class WindowInfo(_Part):
    """How long inputs are cut.

    Attributes:
        size: Most tokens in a window.
        stride_overlap: Context tokens that a window repeats from the one before.
        sizes: The lengths it was trained with, rising, among which each example chooses the
            cheapest; empty where ``size`` is the only one.
        break_even: Positions at which attention costs the encoder as much as all else; needed for
            the choice.
    """

    size: int = Field(gt=0)
    stride_overlap: int = Field(default=0, ge=0)
    sizes: tuple[int, ...] = ()
    break_even: int | None = Field(default=None, gt=0)


class SpecialTokenIds(_Part):
    """The ids that frame a window."""

    cls: int = Field(ge=0)
    sep: int = Field(ge=0)
    pad: int = Field(ge=0)


class TensorInfo(_Part):
    """One input or output of the model: its name, its type and a letter for every dimension."""

    name: str
    dtype: Literal["int64", "float32"]
    dims: tuple[str, ...]


class GraphInfo(_Part):
    """One ONNX graph in the bundle.

    Attributes:
        file: Its file name.
        precision: Precision of its large matmuls; ``int8`` is for CPUs, bf16 and fp16 for GPUs.
        opset: The version of the standard ONNX operators it is written in.
        portable: Whether standard ONNX operators are all it uses, so that any engine can read it.
        difference: Largest difference of any output from the weights, over the parity grid.
        sums_fit: Whether its int8 weights are so small that sums of two products fit in 16 bits
            (``exporting.int8``), and every processor adds them right.
    """

    file: str
    precision: GraphPrecision
    opset: int = Field(gt=0)
    portable: bool
    difference: float | None = Field(default=None, ge=0)
    sums_fit: bool = False


class DataInfo(_Part):
    """A data set the model was trained on: rows used, and the licence of the texts."""

    name: str
    licence: str
    rows: int = Field(ge=0)


class TrainingInfo(_Part):
    """How the weights came to be: the command that can be run again, the data, the settings."""

    command: str
    date: str
    data: tuple[DataInfo, ...]
    settings: dict[str, str | int | float | bool | None] = {}


class ScoreInfo(_Part):
    """One measured figure, with all that is needed to measure it again.

    Attributes:
        measure: What was measured, as ``trivet test`` names it.
        data: The data set, with its component set where there is one.
        split: The split; ``dev`` is the project's own grouped split.
        value: The figure; ``None`` where it is undefined (one class only, say).
        low: Lower end of the 95 % bootstrap interval.
        high: Upper end.
        n: Rows the figure is over.
        positives: How many of them are of the positive class, where there is one.
        failed: Rows that could not be judged.
        date: The day it was measured.
        command: The command that measured it.
        precision: The precision of the engine that answered.
    """

    measure: str
    data: str
    split: str
    value: float | None
    low: float | None
    high: float | None
    n: int = Field(ge=0)
    positives: int | None = Field(default=None, ge=0)
    failed: int = Field(default=0, ge=0)
    date: str
    command: str
    precision: GraphPrecision


class PlattInfo(_Part):
    """Platt scaling of a head: sigmoid(scale * logit + shift + lexical_overlap * overlap).

    Scale and shift are folded into the weights. The support head scales its three logits and shifts
    that of entailment. The overlap of the token's sentence (``data.lexical_overlap``) enters in the
    graph.
    """

    scale: float = Field(gt=0)
    shift: float
    lexical_overlap: float = 0.0


class KnotsInfo(_Part):
    """A head's logit, mapped through a rising piecewise-linear line before it is a probability."""

    x: tuple[float, ...] = Field(min_length=2)
    y: tuple[float, ...] = Field(min_length=2)


class CalibrationError(_Part):
    """Expected calibration error of a head's sentences; ``after`` is of rows it was not fitted on.

    Attributes:
        before: Of the weights as they were; ``None`` where no label is known.
        after: Two-fold cross-fitted by group; ``None`` where a half has one class only.
        n: Sentences.
    """

    before: float | None
    after: float | None
    n: int = Field(ge=0)


class CalibrationInfo(_Part):
    """How raw probabilities become reported ones: as they are, or by maps fitted on dev rows.

    Attributes:
        method: The last one used.
        heads: The linear maps, of all calibrations together; folded into the weights.
        knots: The maps that are applied in the graph.
        errors: Measured by the last calibration.
        data: The sources.
        split: Their split.
    """

    method: Literal["identity", "platt", "temperature", "isotonic"] = "identity"
    heads: dict[HeadName, PlattInfo] = {}
    knots: dict[HeadName, KnotsInfo] = {}
    errors: dict[HeadName, CalibrationError] = {}
    data: tuple[str, ...] = ()
    split: str | None = None


INPUTS: tuple[TensorInfo, ...] = (
    TensorInfo(name="input_ids", dtype="int64", dims=("N", "L")),
    TensorInfo(name="attention_mask", dtype="int64", dims=("N", "L")),
    TensorInfo(name="segment_ids", dtype="int64", dims=("N", "L")),
    TensorInfo(name="response_at", dtype="int64", dims=("B", "R", "K")),
    TensorInfo(name="context_at", dtype="int64", dims=("B", "C")),
    TensorInfo(name="context_weight", dtype="float32", dims=("B", "C")),
    TensorInfo(name="question_overlap", dtype="float32", dims=("B", "C")),
    TensorInfo(name="response_overlap", dtype="float32", dims=("B", "C")),
    TensorInfo(name="context_overlap", dtype="float32", dims=("B", "R")),
    TensorInfo(name="sentence_pool", dtype="float32", dims=("B", "S", "R")),
)
OUTPUTS: tuple[TensorInfo, ...] = (
    TensorInfo(name="support_probs", dtype="float32", dims=("B", "R")),
    TensorInfo(name="relevance_probs", dtype="float32", dims=("B", "C")),
    TensorInfo(name="utilization_probs", dtype="float32", dims=("B", "C")),
    TensorInfo(name="sentence_support", dtype="float32", dims=("B", "S")),
    TensorInfo(name="faithfulness", dtype="float32", dims=("B",)),
    TensorInfo(name="relevance", dtype="float32", dims=("B",)),
    TensorInfo(name="utilization", dtype="float32", dims=("B",)),
    TensorInfo(name="completeness", dtype="float32", dims=("B",)),
)
LABELS: dict[str, str] = {
    "support_probs": "probability that some window supports this response token",
    "relevance_probs": "probability that this context token helps to answer the question",
    "utilization_probs": "probability that the response drew on this context token",
    "sentence_support": "mean support of the tokens of this response sentence",
    "faithfulness": "support of the weakest part of the response",
    "relevance": "expected share of the context sentences that help to answer the question",
    "utilization": "expected share of the context sentences that the response drew on",
    "completeness": "share of the relevant context that the response drew on",
}


class BundleInfo(_Part):
    """All of ``bundle.json``.

    Attributes:
        schema_version: The version of this very layout.
        package_version: The trivet that wrote the bundle.
        name: The model's name, for people.
        encoder: The encoder.
        window: How inputs are cut.
        faithfulness: Which part of the response is the weakest: a token or a sentence.
        heads: The heads that were trained.
        thresholds: Where probabilities become verdicts.
        special_tokens: The ids that frame a window.
        training: Where the weights come from.
        scores: Measured figures.
        calibration: How raw probabilities become reported ones.
        graphs: The ONNX graphs in the bundle; ``trivet export`` adds them.
        engines: What was built of them on graphics cards; the engines themselves stay there.
        openvino: What OpenVINO runs, where it was chosen on labelled rows.
        inputs: The model's inputs, in order; one meaning for torch and every engine.
        outputs: The model's outputs, in order.
        labels: What each output means.
        notes: Anything else a reader of the model card must know, one paragraph each.
        trunk: Whether the heads share the encoder, have one each, or share its lower layers.
        shared_layers: How many layers a partial trunk shares; ``None`` for the others.
        granularity: Whether heads decide on every token or once a window.
    """

    schema_version: Literal[1] = 1
    package_version: str
    name: str = Field(min_length=1)
    encoder: EncoderInfo
    window: WindowInfo
    faithfulness: Reduction
    heads: tuple[HeadName, ...] = Field(min_length=1)
    thresholds: Thresholds
    special_tokens: SpecialTokenIds
    training: TrainingInfo
    scores: tuple[ScoreInfo, ...] = ()
    calibration: CalibrationInfo = CalibrationInfo()
    graphs: tuple[GraphInfo, ...] = ()
    engines: tuple[EngineInfo, ...] = ()
    openvino: OpenVinoInfo | None = None
    inputs: tuple[TensorInfo, ...] = INPUTS
    outputs: tuple[TensorInfo, ...] = OUTPUTS
    labels: dict[str, str] = LABELS
    notes: tuple[str, ...] = ()
    trunk: TrunkKind = "shared"
    shared_layers: int | None = Field(default=None, gt=0)
    granularity: Granularity = "token"

    @model_validator(mode="after")
    def _fits_this_package(self) -> Self:
        if self.window.stride_overlap >= self.window.size:
            raise ValueError(
                f"window.stride_overlap ({self.window.stride_overlap}) must be below window.size "
                f"({self.window.size})"
            )
        sizes = self.window.sizes
        if sizes and sorted({*sizes, self.window.size}) != list(sizes):
            raise ValueError(
                f"window.sizes {list(sizes)} must rise, and the last must be window.size "
                f"({self.window.size})"
            )
        if sizes and self.window.break_even is None:
            raise ValueError("window.break_even is missing: no length can be chosen without it")
        if len(set(self.heads)) != len(self.heads):
            raise ValueError(f"heads {list(self.heads)} name one head twice")
        if (self.trunk == "partial") != (self.shared_layers is not None):
            raise ValueError(
                f"shared_layers ({self.shared_layers}) belongs to a partial trunk, and to no other "
                f"(trunk: {self.trunk})"
            )
        if (self.inputs, self.outputs) != (INPUTS, OUTPUTS):
            given = (each.name for each in (*self.inputs, *self.outputs))
            odd = {each.name for each in (*INPUTS, *OUTPUTS)}.symmetric_difference(given)
            raise ValueError(
                "inputs or outputs differ from the tensors this trivet works with "
                f"({', '.join(sorted(odd)) or 'in type, dimensions or order'}); another trivet "
                f"wrote the bundle ({self.package_version}): run it with that one, or train and "
                "export the model again with this one"
            )
        return self

    def to_json(self) -> str:
        """Return ``bundle.json`` as text."""
        return self.model_dump_json(indent=2) + "\n"


def parse_info(text: bytes, where: str) -> BundleInfo:
    """Read ``bundle.json``; the version is looked at first, so that a newer file says "upgrade".

    Args:
        text: The bytes of the file.
        where: How messages name the file.

    Raises:
        BundleError: Not JSON, of another schema version, or with a key missing, unknown or of the
            wrong type; every fault is named by its key.
    """
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise BundleError(f"{where}: not JSON: {error}") from error
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if version != SCHEMA_VERSION:
        raise BundleError(
            f"{where}: schema_version {version!r}, this trivet reads {SCHEMA_VERSION}; "
            + (
                "upgrade trivet (pip install --upgrade trivet)"
                if isinstance(version, int) and version > SCHEMA_VERSION
                else "write the bundle again with this trivet"
            )
        )
    try:
        return BundleInfo.model_validate_json(text)
    except ValidationError as error:
        faults = [
            f"{'.'.join(str(part) for part in fault['loc']) or 'bundle'}: {fault['msg']}"
            for fault in error.errors()
        ]
        raise BundleError(f"{where}: {'; '.join(faults)}") from error
