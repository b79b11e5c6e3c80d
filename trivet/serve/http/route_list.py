"""Every route, described once: the OpenAPI document and the page ``/docs`` are made from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, TypeAlias

from trivet.serve.http import response_models
from trivet.serve.http.errors import STATUSES
from trivet.serve.http.health import PUBLIC
from trivet.serve.http.request_models import (
    ClassifyBody,
    EvaluateBody,
    EvaluateOne,
    LettuceDetectBody,
    RelevanceBody,
    StreamBody,
)
from trivet.serve.http.settings import OTLP_PATH, ServerSettings
from trivet.serve.http.tensors import InferAnswer, InferBody, ModelAnswer, ServerAnswer

_NO_BODY_REFUSALS = ("unauthorized", "not_found", "method_not_allowed", "client_gone", "unhealthy")
EXAMPLES: dict[str, Any] = json.loads(
    (resources.files("trivet.serve.http") / "examples.json").read_text(encoding="utf-8")
)
"""Requests and their answers, with made-up numbers."""

Named: TypeAlias = tuple[tuple[str, dict[str, Any]], ...]


@dataclass(frozen=True)
class RouteFacts:
    """One route, with examples of its requests and answers by name."""

    method: str
    path: str
    summary: str
    answer: Any  # a media type where it is not JSON
    body: Any = None  # type of the request's body
    requests: Named = ()
    answers: Named = ()
    notes: str = ""

    @property
    def public(self) -> bool:
        """Whether the route needs no API key."""
        return self.path in PUBLIC

    @property
    def refusals(self) -> tuple[str, ...]:
        """Error types that the route may answer."""
        key = () if self.public else ("unauthorized",)
        unhealthy = ("unhealthy",) if self.answer is response_models.HealthAnswer else ()
        of_body = (each for each in STATUSES if self.body and each not in _NO_BODY_REFUSALS)
        return (*key, *unhealthy, *of_body)


def _probe(path: str, summary: str, answer: dict[str, Any]) -> RouteFacts:
    answers = (("healthy", answer),)
    return RouteFacts("GET", path, summary, response_models.HealthAnswer, answers=answers)


def _infer(path: str) -> RouteFacts:
    return RouteFacts(
        "POST",
        path,
        "Evaluate one example by the Open Inference Protocol.",
        InferAnswer,
        InferBody,
        (("one", EXAMPLES["infer"]),),
        (("one", EXAMPLES["infer_answer"]),),
        "Inputs are BYTES: question [1], contexts [-1], response [1] and optionally options_json "
        "[1], an object with id, allow_empty_contexts, threshold and timeout_ms (this server "
        "only). A leading batch dimension of 1 is accepted. Outputs are faithfulness, relevance, "
        "utilization and completeness, FP32 [1], -1 where a score is undefined, and verdict, BYTES "
        "[1]: the answer "
        "of /v1/evaluate as JSON. Requests and answers may use the binary tensor extension.",
    )


_READY = {"name": "trivet", "ready": True}

ROUTES: tuple[RouteFacts, ...] = (
    RouteFacts(
        "POST",
        "/v1/evaluate",
        "Evaluate one example or several, or a conversation.",
        response_models.Verdict | response_models.ManyAnswer,
        EvaluateBody,
        (("one", EXAMPLES["evaluate_one"]), ("many", EXAMPLES["evaluate_many"])),
        (("one", EXAMPLES["verdict"]), ("many", EXAMPLES["many"])),
        "Offsets count Unicode code points. In a request with several examples, a failed one has "
        "an error in its place, and the status is 200; a single failed example is refused. Of a "
        "conversation, the last answer is evaluated as one, with turns=all each as several.",
    ),
    RouteFacts(
        "POST",
        "/v1/relevance",
        "Evaluate the relevance of contexts before an answer is generated.",
        response_models.RelevanceAnswer,
        RelevanceBody,
        (("passages", EXAMPLES["relevance"]),),
        (("passages", EXAMPLES["relevance_answer"]),),
    ),
    RouteFacts(
        "POST",
        "/v1/lettucedetect/spans",
        "Return unsupported spans in the format of LettuceDetect's server.",
        response_models.LettuceDetectAnswer,
        LettuceDetectBody,
        (("answer", EXAMPLES["lettuce_detect"]),),
        (("answer", EXAMPLES["lettuce_detect_answer"]),),
        "hallucination_score is the mean over a span's tokens, not their maximum.",
    ),
    RouteFacts(
        "POST",
        "/classify",
        "Return unsupported spans to a gateway, by the contract token_spans.v1.",
        response_models.ClassifyAnswer,
        ClassifyBody,
        (("answer", EXAMPLES["classify"]),),
        (("answer", EXAMPLES["classify_answer"]),),
        "Offsets count Unicode code points of inputs. A context that is one text is cut into "
        "passages at its blank lines.",
    ),
    RouteFacts(
        "POST",
        "/v1/stream",
        "Judge the sentences of an answer while it is written.",
        "text/event-stream",
        StreamBody,
        (("whole", EXAMPLES["stream_whole"]), ("part", EXAMPLES["stream_part"])),
        notes="Send the text so far whenever there is more of it. The data of each event is JSON: "
        "sentence, one for each sentence that is complete, from start on; verdict, the answer of "
        "/v1/evaluate, if the text is complete; end, with the start for the next request; error, "
        "with the fields of a refusal, if it fails after the first event.",
    ),
    RouteFacts(
        "GET",
        "/v1/info",
        "Describe the model, the backend and the limits.",
        response_models.InfoAnswer,
    ),
    _infer("/v2/models/trivet/infer"),
    _infer("/v2/models/trivet/versions/1/infer"),
    RouteFacts("GET", "/v2", "Name of the server and its extensions.", ServerAnswer),
    RouteFacts("GET", "/v2/models/trivet", "Inputs and outputs of the model.", ModelAnswer),
    RouteFacts("GET", "/v2/models/trivet/versions/1", "Same as /v2/models/trivet.", ModelAnswer),
    _probe("/v2/models/trivet/ready", "Readiness of the model.", _READY),
    _probe("/v2/models/trivet/versions/1/ready", "Same as /v2/models/trivet/ready.", _READY),
    _probe("/health/live", "Liveness probe; 503 means restart the process.", {"status": "live"}),
    _probe(
        "/health/ready",
        "Readiness probe; 503 while the server starts, drains or fails.",
        {"status": "ready"},
    ),
    _probe("/v2/health/live", "Same as /health/live.", {"live": True}),
    _probe("/v2/health/ready", "Same as /health/ready.", {"ready": True}),
    RouteFacts("GET", "/metrics", "Prometheus metrics.", "text/plain"),
    RouteFacts("GET", "/openapi.json", "OpenAPI document of all routes.", dict[str, Any]),
    RouteFacts("GET", "/docs", "Documentation of all routes as a page.", "text/html"),
    RouteFacts("GET", "/", "Page that says what this server is.", "text/html"),
    RouteFacts("GET", "/try", "Page that judges one pasted answer.", "text/html"),
    RouteFacts(
        "POST",
        "/try/verdict",
        "Evaluate one example; the answer is a piece of HTML, for /try.",
        "text/html",
        EvaluateOne,
        (("one", EXAMPLES["evaluate_one"]),),
    ),
)

_OTLP = RouteFacts(
    "POST",
    OTLP_PATH,
    "Receive OpenTelemetry traces, to judge a sample of the RAG answers in them.",
    "application/x-protobuf",
    notes="The body is an ExportTraceServiceRequest of OTLP/HTTP as protobuf or JSON, also "
    "compressed with gzip; the answer has the same format and comes before the traces are judged.",
)


def routes_of(settings: ServerSettings) -> Sequence[RouteFacts]:
    """Return the routes of a server with some settings."""
    return (*ROUTES, _OTLP) if settings.otlp else ROUTES
