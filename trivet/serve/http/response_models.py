"""Types of the answers, for the schema, and the dictionaries that are sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, create_model

import trivet
from trivet.bundle.info import EncoderInfo, Thresholds
from trivet.data.windows import WindowSettings
from trivet.evaluation.evaluator import Evaluator
from trivet.heads import HeadName
from trivet.model.architecture import Reduction
from trivet.records import Evaluation, SpanCategory
from trivet.serve.http.server_settings import ServerSettings
from trivet.settings import described_fields


class ResponseModel(BaseModel):
    """A part of an answer; no number is NaN."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True)
class Verdict(Evaluation):
    """The verdict on one example; every number is finite or null, never NaN.

    Attributes:
        context_ids: Ids of the contexts, where the request has any.
    """

    context_ids: tuple[str | None, ...] = ()


class Fault(ResponseModel):
    """The reason why an example failed."""

    code: str = Field(description="Stable reason, such as empty_contexts or too_long.")
    message: str = Field(description="Explanation in a sentence.")


class Failed(ResponseModel):
    """The result of an example that failed."""

    id: str | None = Field(description="Id of the example.")
    error: Fault


class ManyAnswer(ResponseModel):
    """One result for each example, in order."""

    results: list[Verdict | Failed]


class SentenceRelevance(ResponseModel):
    """One sentence of a context."""

    start: int = Field(description="First character.")
    end: int = Field(description="One past the last character.")
    text: str
    relevance: float | None = Field(
        description="Mean probability to help answer the question; null without that head."
    )


class ContextRelevance(ResponseModel):
    """One context."""

    relevance: float | None = Field(description="Mean over its sentences; null where it has none.")
    sentences: list[SentenceRelevance]


class RelevanceAnswer(ResponseModel):
    """Relevance of the contexts to the question."""

    id: str | None = Field(description="Id of the request.")
    relevance: float | None = Field(
        description="Expected share of the context sentences that help to answer the question."
    )
    contexts: list[ContextRelevance] = Field(description="One for each context, in order.")
    windows: int = Field(description="Number of windows that the encoder read.")
    window_size: int = Field(description="Size of a window in tokens.")
    cut_question_tokens: int = Field(description="Tokens of the question that did not fit.")
    context_ids: list[str | None] = Field(
        default=[], description="Ids of the contexts, where the request has any."
    )


class ClassifySpan(ResponseModel):
    """A span that the context does not support."""

    start: int = Field(description="First code point of inputs.")
    end: int = Field(description="One past the last code point.")
    label: SpanCategory | Literal["hallucinated"] = Field(
        description="Kind of the error; hallucinated where it is unknown."
    )
    score: float = Field(description="Probability to be unsupported, in [0, 1].")
    text: str


class ClassifyAnswer(ResponseModel):
    """Unsupported spans by the contract token_spans.v1; without any, all is supported."""

    spans: list[ClassifySpan]
    truncated_at: int | None = Field(
        default=None,
        description="Length of inputs, only where the question was cut: the scan is partial.",
    )
    model: str = Field(description="Name of the bundle.")


class CalibrationAnswer(ResponseModel):
    """Calibration of the probabilities."""

    errors: dict[HeadName, Any] = Field(
        description="Expected calibration error of each head, before and after."
    )
    data: list[str]
    split: str | None


class BundleAnswer(ResponseModel):
    """The loaded model."""

    name: str
    package_version: str = Field(description="Version of trivet that wrote the bundle.")
    encoder: EncoderInfo
    heads: list[HeadName]
    faithfulness: Reduction = Field(description="Part of a response whose support counts.")
    window: WindowSettings
    thresholds: Thresholds | None = Field(description="Null without a support head.")
    calibration: CalibrationAnswer


class BackendAnswer(ResponseModel):
    """The backend that runs the model."""

    name: str
    precision: str


_LIMITS = (
    "max_body_bytes",
    "max_contexts",
    "max_characters",
    "max_examples",
    "max_requests",
    "max_queued_windows",
    "default_timeout_ms",
    "max_timeout_ms",
)
_NUMBERS: dict[str, Any] = {
    field.name: (
        float if field.name.endswith("_ms") else int,
        Field(description=field.setting.text),
    )
    for field in described_fields(ServerSettings)
    if field.name in _LIMITS
}
LimitsAnswer = create_model(
    "LimitsAnswer", __base__=ResponseModel, __doc__="Limits of a request.", **_NUMBERS
)


class InfoAnswer(ResponseModel):
    """The server, its model and its limits."""

    version: str = Field(description="Version of trivet that serves.")
    bundle: BundleAnswer
    backend: BackendAnswer
    limits: LimitsAnswer  # type: ignore[valid-type]

    @classmethod
    def of(cls, evaluator: Evaluator, settings: ServerSettings) -> Self:
        """Return the description of a server."""
        bundle = evaluator.bundle.info
        timeout_ms = settings.default_timeout_ms or settings.max_timeout_ms
        limits = {name: getattr(settings, name) for name in _LIMITS}
        return cls(
            version=trivet.__version__,
            bundle=BundleAnswer.model_validate(bundle, strict=False, from_attributes=True),
            backend=BackendAnswer(name=evaluator.backend_name, precision=evaluator.precision),
            limits=LimitsAnswer(**(limits | {"default_timeout_ms": timeout_ms})),
        )


class HealthAnswer(ResponseModel):
    """The server is healthy."""

    status: str


class ErrorAnswer(ResponseModel):
    """A refused request."""

    error: str = Field(description="Explanation: field, numbers and way out.")
    error_type: str = Field(description="Stable reason in one word.")
    request_id: str = Field(description="Also in the server's log and in X-Request-Id.")


class NoulAnswer(ResponseModel):
    """The answer to a yes/no question."""

    type: Literal["noul"]
    noul: float = Field(description="Probability of yes.")


class SystemOneAnswer(ResponseModel):
    """Answers to the questions of a request, by their ids."""

    model: str = Field(description="Name of the bundle.")
    answers: dict[str, NoulAnswer]
    usage: dict[str, int] = Field(description="Billed tokens: none.")


class SystemOneRefusal(ErrorAnswer):
    """A refused request in both forms: that of this server and that of the interface."""

    detail: dict[str, str] | list[dict[str, Any]]
