"""The contents of ``bundle.json``: description, training data, scores and files of a model.

Window settings and thresholds belong to the weights.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from trivet.bundle.backend_info import EngineInfo, OpenVinoInfo
from trivet.bundle.manifest import Part
from trivet.data.sentence_features import FEATURES
from trivet.data.windows import WindowSettings
from trivet.heads import HEAD_OUTPUTS, HeadName
from trivet.model.aggregate import output_names
from trivet.model.architecture import NO_LAYER, Granularity, Reduction, SentenceLayer, TrunkKind
from trivet.settings import Precision, ThresholdName

SCHEMA_VERSION = 1
UNBOUNDED = ("Data2txt", "search")  # sets whose false alarms bound no threshold: docs/metrics.md

Probability = Annotated[float, Field(ge=0.0, le=1.0)]


@dataclass(config=Part.model_config)
class Thresholds:
    """Thresholds of verdicts, chosen on development data.

    Attributes:
        sentence: A sentence is unsupported if its support is below it, and a response with such a
            sentence is not adherent; the name of this threshold is ``balanced``.
        span: Support below which a word of an unsupported sentence is marked; if there is none,
            the whole sentence is.
        careful: Threshold with fewer false alarms, at most ``sentence``; None: ``sentence``.
        strict: Threshold that finds more, at least ``sentence``; None: ``sentence``.
    """

    sentence: Probability
    span: Probability
    careful: Probability | None = None
    strict: Probability | None = None

    def __post_init__(self) -> None:
        if not self.named("careful") <= self.sentence <= self.named("strict"):
            raise ValueError(
                f"careful ({self.careful}), sentence ({self.sentence}) and strict ({self.strict}) "
                "must rise"
            )

    def named(self, name: ThresholdName) -> float:
        """Return the sentence threshold of a name."""
        value = {"careful": self.careful, "strict": self.strict}.get(name)
        return self.sentence if value is None else value

    def at(self, threshold: float | ThresholdName | None) -> Self:
        """Return thresholds that decide by a sentence threshold or its name; None: the default."""
        if threshold is None:
            return self
        value = self.named(threshold) if isinstance(threshold, str) else threshold
        return type(self)(value, self.span)


class EncoderInfo(Part):
    """Architecture of the encoder, and source and licence of its initial weights."""

    model_type: str
    hidden_size: int = Field(gt=0)
    layers: int = Field(gt=0)
    source: str
    licence: str


class SpecialTokenIds(Part):
    """Special token ids of a window."""

    cls: int = Field(ge=0)
    sep: int = Field(ge=0)
    pad: int = Field(ge=0)


class TensorInfo(Part):
    """Name, type and dimension letters of an input or output."""

    name: str
    dtype: Literal["int64", "float32"]
    dims: tuple[str, ...]


class GraphInfo(Part):
    """One ONNX graph in the bundle."""

    file: str
    # precision of its large matmuls; ``int8`` is for CPUs, bf16 and fp16 for GPUs
    precision: Precision
    opset: int = Field(gt=0)
    portable: bool  # whether it only uses standard ONNX operators
    # largest difference of an output from the weights, over the parity grid
    difference: float | None = Field(default=None, ge=0)
    # whether sums of two int8 products fit in 16 bits (``exporting.int8``), so that every processor
    # adds them exactly
    sums_fit: bool = False


class DataInfo(Part):
    """A training data set: its name, the licence of its texts and the number of rows used."""

    name: str
    licence: str
    rows: int = Field(ge=0)


class LeftOutInfo(Part):
    """Training rows left out because they share a group or texts with test rows."""

    tests: tuple[str, ...]  # test rows, as sources with their split
    rows: int = Field(ge=0)  # number of rows left out
    same_groups: int = Field(ge=0)  # number of groups that test rows belong to as well
    # number of further groups that share a passage with test rows
    passage_groups: int = Field(ge=0)
    question_groups: int = Field(ge=0)  # number of further groups that share a question


class TrainingInfo(Part):
    """Command, date, data and settings of the training."""

    command: str
    date: str
    data: tuple[DataInfo, ...]
    settings: dict[str, str | int | float | bool | None] = Field(default={})
    # rows left out because of ``data.test``; None if it named none
    left_out: LeftOutInfo | None = None


class ScoreInfo(Part):
    """One measured figure."""

    measure: str  # name of the measure in ``trivet test``
    data: str
    split: str  # split; ``dev`` is the project's own grouped split
    value: float | None  # the figure; None if undefined, for example with one class only
    low: float | None  # lower end of the 95 % bootstrap interval
    high: float | None  # upper end of the interval
    n: int = Field(ge=0)
    # number of rows of the positive class, if there is one
    positives: int | None = Field(default=None, ge=0)
    failed: int = Field(default=0, ge=0)  # number of rows that could not be evaluated
    date: str
    command: str
    precision: Precision


class AlarmsInfo(Part):
    """Labelled answers of a set that are flagged at the careful, balanced and strict threshold."""

    data: str
    faithful: int = Field(ge=0)
    false_alarms: tuple[int, int, int]  # faithful answers that are flagged
    hallucinated: int = Field(ge=0)
    found: tuple[int, int, int]  # hallucinated answers that are flagged


class PlattInfo(Part):
    """Platt scaling of a head.

    sigmoid(scale * logit + shift + lexical_overlap * overlap + similarity * similarity logit).
    Scale and shift are folded into the weights. The support head scales its three logits and shifts
    that of entailment, and has nothing more. The overlap of a context token's sentence
    (``data.lexical_overlap``) enters in the graph, and in that of the relevance head the similarity
    of question and sentence.
    """

    scale: float = Field(gt=0)
    shift: float
    lexical_overlap: float = 0.0
    similarity: float = 0.0


class EvidenceInfo(Part):
    """From a pair's logit to a source: sigmoid(scale * logit + shift + lexical_overlap * overlap).

    Fitted on dev rows. The overlap is that of ``data.lexical_overlap.pair_overlaps``.
    """

    scale: float = Field(gt=0)
    shift: float
    lexical_overlap: float = 0.0
    # probability from which a context sentence is a source of a response sentence
    threshold: float = Field(ge=0, le=1)


class SentenceLayerInfo(Part):
    """Layer over the support of response sentences and their features, in the graph.

    sigmoid(scale * logit of the mean support + weights . features + shift).
    """

    scale: float = Field(gt=0)
    shift: float
    weights: dict[str, float]  # by the names of ``data.sentence_features.FEATURES``, in order

    @model_validator(mode="after")
    def _names_the_features(self) -> Self:
        if tuple(self.weights) != FEATURES:
            raise ValueError(
                f"weights of the features {', '.join(self.weights)}; this trivet counts "
                f"{', '.join(FEATURES)}: calibrate and export the bundle again"
            )
        return self

    @classmethod
    def of(cls, layer: SentenceLayer) -> Self:
        """Return the record of a layer with weights."""
        weights = dict(zip(FEATURES, layer.weights, strict=True))
        return cls(scale=layer.scale, shift=layer.shift, weights=weights)

    def layer(self) -> SentenceLayer:
        """Return the layer."""
        return SentenceLayer(self.scale, self.shift, tuple(self.weights.values()))


class CalibrationError(Part):
    """Expected calibration error of a head on sentences."""

    before: float | None  # error before calibration; None without labels
    after: float | None  # two-fold cross-fitted error after it; None if a half has one class only
    n: int = Field(ge=0)


class CompletenessInfo(Part):
    """Map of completeness on the host: sigmoid(scale * logit + shift)."""

    scale: float = Field(gt=0)
    shift: float


class CalibrationInfo(Part):
    """Calibration of the probabilities, fitted on dev rows."""

    # linear maps of all calibrations combined; folded into the weights
    heads: dict[HeadName, PlattInfo] = Field(default={})
    sentences: SentenceLayerInfo | None = None  # layer of the last calibration
    completeness: CompletenessInfo | None = None  # likewise
    errors: dict[HeadName, CalibrationError] = Field(default={})  # of the last calibration
    data: tuple[str, ...] = ()
    split: str | None = None

    def sentence_layer(self) -> SentenceLayer:
        """Return the layer over sentences; without a calibration the one that changes nothing."""
        return NO_LAYER if self.sentences is None else self.sentences.layer()


INPUTS: tuple[TensorInfo, ...] = (
    TensorInfo(name="input_ids", dtype="int64", dims=("N", "L")),
    TensorInfo(name="attention_mask", dtype="int64", dims=("N", "L")),
    TensorInfo(name="segment_ids", dtype="int64", dims=("N", "L")),
    TensorInfo(name="response_at", dtype="int64", dims=("B", "R", "K")),
    TensorInfo(name="context_at", dtype="int64", dims=("B", "C")),
    TensorInfo(name="context_weight", dtype="float32", dims=("B", "C")),
    TensorInfo(name="question_overlap", dtype="float32", dims=("B", "C")),
    TensorInfo(name="response_overlap", dtype="float32", dims=("B", "C")),
    TensorInfo(name="sentence_pool", dtype="float32", dims=("B", "S", "R")),
    TensorInfo(name="sentence_features", dtype="float32", dims=("B", "S", "F")),
)
OUTPUTS: tuple[TensorInfo, ...] = tuple(
    TensorInfo(name=name, dtype="float32", dims=dims) for name, (dims, _) in HEAD_OUTPUTS.items()
)
LABELS: dict[str, str] = {name: meaning for name, (_, meaning) in HEAD_OUTPUTS.items()}


def outputs_of(heads: Collection[str]) -> tuple[TensorInfo, ...]:
    """Return the outputs of a model with these heads."""
    names = output_names(heads)
    return tuple(info for info in OUTPUTS if info.name in names)


class BundleInfo(Part):
    """All of ``bundle.json``.

    Attributes:
        package_version: Version of the trivet that wrote the bundle.
        faithfulness: Part of a response that decides: the weakest token or sentence, or the two
            weakest sentences, of which the lower counts twice.
        thresholds, evidence: ``None`` without a support head, or an evidence head.
        outputs: Outputs of the heads.
        engines: TensorRT engines built from the graphs; the engines stay where they were built.
        openvino: Model for OpenVINO, if one was chosen.
        labels: Meaning of each output.
        notes: Further paragraphs for the model card.
        trunk: Whether the heads share the encoder, have one each, or share its lower layers.
        shared_layers: Number of shared layers of a partial trunk; ``None`` otherwise.
        granularity: Whether heads predict for every token or once per window.
        alarms: Answers that are flagged at the named thresholds; of dev sets.
        prefix_attention: Whether contexts and question do not see the response, so that relevance
            does not depend on it.
    """

    schema_version: Literal[1] = 1
    package_version: str
    name: str = Field(min_length=1)
    encoder: EncoderInfo
    window: WindowSettings
    faithfulness: Reduction
    heads: tuple[HeadName, ...] = Field(min_length=1)
    thresholds: Thresholds | None
    special_tokens: SpecialTokenIds
    training: TrainingInfo
    scores: tuple[ScoreInfo, ...] = ()
    calibration: CalibrationInfo = CalibrationInfo()
    graphs: tuple[GraphInfo, ...] = ()
    engines: tuple[EngineInfo, ...] = ()
    openvino: OpenVinoInfo | None = None
    inputs: tuple[TensorInfo, ...] = INPUTS
    outputs: tuple[TensorInfo, ...] = OUTPUTS[:-1]
    labels: dict[str, str] = LABELS
    notes: tuple[str, ...] = ()
    trunk: TrunkKind = "shared"
    shared_layers: int | None = Field(default=None, gt=0)
    granularity: Granularity = "token"
    prefix_attention: bool = False
    evidence: EvidenceInfo | None = None
    alarms: tuple[AlarmsInfo, ...] = ()

    @model_validator(mode="after")
    def _fits_this_package(self) -> Self:
        if len(set(self.heads)) != len(self.heads):
            raise ValueError(f"heads {list(self.heads)} name one head twice")
        if (self.trunk == "partial") != (self.shared_layers is not None):
            raise ValueError(
                f"shared_layers ({self.shared_layers}) belongs to a partial trunk, and to no other "
                f"(trunk: {self.trunk})"
            )
        for name, head in (("thresholds", "support"), ("evidence", "evidence")):
            if ((part := getattr(self, name)) is None) == (head in self.heads):
                heads = ", ".join(self.heads)
                raise ValueError(f"{name} ({part}) must be with a {head} head (heads: {heads})")
        outputs = outputs_of(self.heads)
        if (self.inputs, self.outputs) != (INPUTS, outputs):
            present = (tensor.name for tensor in (*self.inputs, *self.outputs))
            odd = {tensor.name for tensor in (*INPUTS, *outputs)}.symmetric_difference(present)
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
