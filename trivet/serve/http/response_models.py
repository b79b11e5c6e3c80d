"""What the server answers, as plain dictionaries, and their types for the schema.

An example's verdict is `Evaluation.to_dict()`, as everywhere in the house.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from trivet.bundle.schema import CalibrationInfo, EncoderInfo, Thresholds, WindowInfo
from trivet.model.architecture import HeadName, Reduction
from trivet.records import Evaluation, FailedEvaluation

Ids = Sequence[str | None] | None


class Answer(BaseModel):
    """A part of an answer: no number is NaN."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True)
class Verdict(Evaluation):
    """The verdict on one example; every number is finite or null, never NaN.

    Attributes:
        context_ids: The contexts' own names, where the request brought any.
    """

    context_ids: tuple[str | None, ...] = ()


class Fault(Answer):
    """Why an example has no verdict."""

    code: str = Field(description="Stable, for programs: empty_contexts, too_long, backend_failed.")
    message: str = Field(description="For people.")


class Failed(Answer):
    """Stands in the place of an example that could not be judged."""

    id: str | None = Field(description="The example's own id.")
    error: Fault


class ManyAnswer(Answer):
    """One result for each example, in order."""

    results: list[Verdict | Failed]


class SentenceRelevance(Answer):
    """One sentence of a context."""

    start: int = Field(description="First character.")
    end: int = Field(description="One past the last character.")
    text: str
    relevance: float = Field(description="Mean probability that it helps to answer the question.")


class ContextRelevance(Answer):
    """One context."""

    relevance: float | None = Field(description="Mean over its sentences; null where it has none.")
    sentences: list[SentenceRelevance]


class RelevanceAnswer(Answer):
    """What the passages are worth to the question."""

    id: str | None = Field(description="The request's own id.")
    relevance: float | None = Field(
        description="Expected share of the context sentences that help to answer the question."
    )
    contexts: list[ContextRelevance] = Field(description="One a context, in order.")
    windows: int = Field(description="How many windows the encoder read.")
    window_size: int = Field(description="The most tokens that each of them could hold.")
    cut_question_tokens: int = Field(description="Tokens of the question that were not read.")
    context_ids: list[str | None] = Field(
        default=[], description="The contexts' own names, where the request brought any."
    )


class LettuceDetectSpan(Answer):
    """What nothing in the contexts supports."""

    start: int = Field(description="First character of the answer.")
    end: int = Field(description="One past the last character.")
    text: str
    hallucination_score: float = Field(
        description="Mean probability, over its tokens, that they are unsupported."
    )


class LettuceDetectAnswer(Answer):
    """What LettuceDetect's server answers."""

    predictions: list[LettuceDetectSpan]


class CalibrationAnswer(Answer):
    """How raw probabilities became reported ones."""

    method: str
    errors: dict[HeadName, Any] = Field(
        description="Expected calibration error of each head, before and after."
    )
    data: list[str]
    split: str | None

    @classmethod
    def of(cls, info: CalibrationInfo) -> CalibrationAnswer:
        """Return what a client may want to know of a calibration."""
        errors = {head: error.model_dump() for head, error in info.errors.items()}
        return cls(method=info.method, errors=errors, data=list(info.data), split=info.split)


class BundleAnswer(Answer):
    """The model."""

    name: str
    package_version: str = Field(description="The trivet that wrote the bundle.")
    encoder: EncoderInfo
    heads: list[HeadName]
    faithfulness: Reduction = Field(description="Which part of a response is the weakest.")
    window: WindowInfo
    thresholds: Thresholds
    calibration: CalibrationAnswer


class BackendAnswer(Answer):
    """What runs it."""

    name: str
    precision: str


class LimitsAnswer(Answer):
    """What a request may hold."""

    max_body_bytes: int
    max_contexts: int = Field(description="Of one example.")
    max_characters: int = Field(description="Of one text: question, response or context.")
    max_examples: int = Field(description="Of one request.")
    max_requests: int = Field(description="Accepted and unanswered, of all clients together.")
    max_queued_windows: int = Field(description="Laid out and not yet run, likewise.")
    default_timeout_ms: float
    max_timeout_ms: float


class InfoAnswer(Answer):
    """What answers here, and within which limits."""

    version: str = Field(description="Of the package that serves.")
    bundle: BundleAnswer
    backend: BackendAnswer
    limits: LimitsAnswer


class HealthAnswer(Answer):
    """All is well. The routes of the Open Inference Protocol say so in their own words."""

    status: str | None = None
    name: str | None = None
    live: bool | None = None
    ready: bool | None = None


class ErrorAnswer(Answer):
    """What every refusal looks like."""

    error: str = Field(description="For people: the field, the numbers, the way out.")
    error_type: str = Field(description="Stable, for programs.")
    request_id: str = Field(description="Stands in the server's log, and in X-Request-Id.")


def verdict_fields(verdict: Evaluation, ids: Ids = None) -> dict[str, Any]:
    """Return a verdict, with the contexts' names where they have any."""
    fields = verdict.to_dict()
    return fields if ids is None else {**fields, "context_ids": list(ids)}


def result_fields(result: Evaluation | FailedEvaluation, ids: Ids = None) -> dict[str, Any]:
    """Return a verdict, or why there is none, as one of several."""
    if isinstance(result, Evaluation):
        return verdict_fields(result, ids)
    return {"id": result.id, "error": {"code": result.code, "message": result.message}}


def relevance_fields(verdict: Evaluation, ids: Ids = None) -> dict[str, Any]:
    """Return what a verdict without a response says of its contexts."""
    fields: dict[str, Any] = {
        "id": verdict.id,
        "relevance": verdict.relevance,
        "contexts": [
            {
                "relevance": context.relevance,
                "sentences": [
                    {"start": s.start, "end": s.end, "text": s.text, "relevance": s.relevance}
                    for s in context.sentences
                ],
            }
            for context in verdict.contexts
        ],
        "windows": verdict.windows,
        "window_size": verdict.window_size,
        "cut_question_tokens": verdict.cut_question_tokens,
    }
    return fields if ids is None else {**fields, "context_ids": list(ids)}
