"""Every route, described once: the schema and the page of documentation are made from this list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from trivet.serve.http import examples, response_models
from trivet.serve.http.health import PUBLIC
from trivet.serve.http.open_inference_models import (
    InferAnswer,
    InferBody,
    ModelAnswer,
    ServerAnswer,
)
from trivet.serve.http.request_models import EvaluateBody, LettuceDetectBody, RelevanceBody

_ALWAYS = ("unauthorized",)
_OF_BODIES = (
    "invalid_json",
    "invalid_unicode",
    "malformed",
    "timeout_reading",
    "too_large",
    "validation",
    "empty_contexts",
    "too_long",
    "window",
    "overloaded",
    "backend_failed",
    "non_finite",
    "internal",
    "draining",
    "deadline",
)


@dataclass(frozen=True)
class RouteFacts:
    """One route, for people and for programs.

    Attributes:
        method: ``POST``.
        path: ``/v1/evaluate``.
        summary: What it is for, one sentence.
        answer: The type of its answer; a media type where that is no JSON.
        body: The type of its request's body.
        requests: Bodies to try, by name.
        answers: What they are answered with, likewise.
        refusals: The error types that it may answer with.
        notes: What else there is to know.
    """

    method: str
    path: str
    summary: str
    answer: Any
    body: Any = None
    requests: Sequence[tuple[str, dict[str, Any]]] = ()
    answers: Sequence[tuple[str, dict[str, Any]]] = ()
    refusals: Sequence[str] = _ALWAYS
    notes: str = ""

    @property
    def public(self) -> bool:
        """Whether it answers without a key."""
        return self.path in PUBLIC


def adapter(kind: Any) -> TypeAdapter[Any]:
    """Return what knows the schema of a body or an answer."""
    return kind if isinstance(kind, TypeAdapter) else TypeAdapter(kind)


def _probe(path: str, summary: str, fine: dict[str, Any]) -> RouteFacts:
    refusals = ("unhealthy",) if path in PUBLIC else (*_ALWAYS, "unhealthy")
    return RouteFacts(
        "GET",
        path,
        summary,
        response_models.HealthAnswer,
        answers=[("fine", fine)],
        refusals=refusals,
    )


def _infer(path: str) -> RouteFacts:
    return RouteFacts(
        "POST",
        path,
        "Judge one example, as a model of the Open Inference Protocol.",
        InferAnswer,
        body=InferBody,
        requests=[("one", examples.INFER)],
        answers=[("one", examples.INFER_ANSWER)],
        refusals=(*_ALWAYS, *_OF_BODIES),
        notes=(
            "Inputs are BYTES: question [1], contexts [-1], response [1] and, if you like, "
            "options_json [1]: an object with id, allow_empty_contexts and timeout_ms, the last of "
            "which is this server's own. A leading batch dimension of 1 is accepted. Outputs are "
            "faithfulness, relevance, utilization and completeness, FP32 [1], -1 where a score "
            "means nothing for the example, and verdict, BYTES [1]: the answer of /v1/evaluate as "
            "JSON. The binary tensor extension is spoken both ways."
        ),
    )


ROUTES: tuple[RouteFacts, ...] = (
    RouteFacts(
        "POST",
        "/v1/evaluate",
        "Judge one answer, or several.",
        response_models.Verdict | response_models.ManyAnswer,
        body=EvaluateBody,
        requests=[("one", examples.EVALUATE_ONE), ("many", examples.EVALUATE_MANY)],
        answers=[("one", examples.VERDICT), ("many", examples.MANY)],
        refusals=(*_ALWAYS, *_OF_BODIES),
        notes=(
            "Offsets count Unicode code points. Of several examples each that cannot be judged "
            "has an error in its place, and the status is 200; one that stands alone is refused."
        ),
    ),
    RouteFacts(
        "POST",
        "/v1/relevance",
        "Judge passages by the question alone, before an answer is generated.",
        response_models.RelevanceAnswer,
        body=RelevanceBody,
        requests=[("passages", examples.RELEVANCE)],
        answers=[("passages", examples.RELEVANCE_ANSWER)],
        refusals=(*_ALWAYS, *_OF_BODIES),
    ),
    RouteFacts(
        "POST",
        "/v1/lettucedetect/spans",
        "Answer as LettuceDetect's server does: what in the answer nothing supports.",
        response_models.LettuceDetectAnswer,
        body=LettuceDetectBody,
        requests=[("answer", examples.LETTUCE_DETECT)],
        answers=[("answer", examples.LETTUCE_DETECT_ANSWER)],
        refusals=(*_ALWAYS, *_OF_BODIES),
        notes="hallucination_score is the mean over a span's tokens, not their highest.",
    ),
    RouteFacts(
        "GET",
        "/v1/info",
        "Say what answers here, and within which limits.",
        response_models.InfoAnswer,
        refusals=_ALWAYS,
    ),
    _infer("/v2/models/trivet/infer"),
    _infer("/v2/models/trivet/versions/1/infer"),
    RouteFacts("GET", "/v2", "Name the server and its extensions.", ServerAnswer),
    RouteFacts("GET", "/v2/models/trivet", "List inputs and outputs.", ModelAnswer),
    RouteFacts("GET", "/v2/models/trivet/versions/1", "The same.", ModelAnswer),
    _probe(
        "/v2/models/trivet/ready",
        "Say whether the model can answer.",
        {"name": "trivet", "ready": True},
    ),
    _probe("/v2/models/trivet/versions/1/ready", "The same.", {"name": "trivet", "ready": True}),
    _probe(
        "/health/live",
        "Say whether the process should go on: 503 asks for a new one.",
        {"status": "live"},
    ),
    _probe(
        "/health/ready",
        "Say whether requests should be sent here: loaded, tested, not shutting down.",
        {"status": "ready"},
    ),
    _probe("/v2/health/live", "The same as /health/live.", {"live": True}),
    _probe("/v2/health/ready", "The same as /health/ready.", {"ready": True}),
    RouteFacts("GET", "/metrics", "Count, for Prometheus.", "text/plain"),
    RouteFacts("GET", "/openapi.json", "Describe every route, for programs.", dict[str, Any]),
    RouteFacts("GET", "/docs", "Describe every route, for people.", "text/html"),
)
