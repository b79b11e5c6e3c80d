"""Every route, described once, and the document of OpenAPI 3.1 that is made from it.

The page ``/docs`` is made from both.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, TypeAlias

from pydantic import TypeAdapter

import trivet
from trivet import records
from trivet.serve.http import response_models
from trivet.serve.http.errors import STATUSES
from trivet.serve.http.health import PUBLIC
from trivet.serve.http.request_models import (
    ClassifyBody,
    EvaluateBody,
    EvaluateOne,
    RelevanceBody,
    StreamBody,
)
from trivet.serve.http.settings import ServerSettings

_NO_BODY_REFUSALS = ("unauthorized", "not_found", "method_not_allowed", "client_gone", "unhealthy")
EXAMPLES: dict[str, Any] = json.loads(
    (resources.files("trivet.serve.http") / "examples.json").read_text(encoding="utf-8")
)
"""Requests and their answers."""

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
    _probe("/health/live", "Liveness probe; 503 means restart the process.", {"status": "live"}),
    _probe(
        "/health/ready",
        "Readiness probe; 503 while the server starts, drains or fails.",
        {"status": "ready"},
    ),
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

_JSON = "application/json"
_DESCRIPTIONS = {
    400: "The request is malformed, not JSON or not Unicode.",
    401: "An API key is required.",
    408: "The body took too long to arrive.",
    413: "The body is too large.",
    422: "A field is missing, unknown, empty, too long or of another type.",
    429: "The server is overloaded; retry after the seconds in Retry-After.",
    500: "The backend or the server failed.",
    503: "The server starts, drains or is unhealthy.",
    504: "The timeout of the request passed.",
}
# An attribute in a docstring: its name, and its text over lines indented further.
_ATTRIBUTE = re.compile(r"^ {8}(\w+): (.+(?:\n {12,}.+)*)", re.MULTILINE)


def openapi(settings: ServerSettings) -> dict[str, Any]:
    """Return the OpenAPI document, with the limits of the settings."""
    error = response_models.ErrorAnswer
    kinds: list[Any] = [("body", r.path, "validation", r.body) for r in ROUTES if r.body]
    kinds += [
        ("answer", r.path, "serialization", r.answer)
        for r in ROUTES
        if not isinstance(r.answer, str)
    ]
    kinds.append(("answer", "", "serialization", error))
    found, definitions = TypeAdapter.json_schemas(
        [((end, path), mode, TypeAdapter(kind)) for end, path, mode, kind in kinds],
        ref_template="#/components/schemas/{model}",
    )
    schemas: Any = {key: schema for (key, _), schema in found.items()}
    parts = definitions["$defs"]
    _describe(parts)
    _add_limits(parts, settings)
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        operation = _operation(route, schemas, settings)
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "Trivet",
            "version": trivet.__version__,
            "summary": "Evaluates RAG answers: faithfulness, relevance, utilization, completeness.",
        },
        "paths": paths,
        "components": {"schemas": parts},
    }
    if settings.keys_file is not None:
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"key": []}]
    return document


def _operation(
    route: RouteFacts, schemas: Mapping[tuple[str, str], dict[str, Any]], settings: ServerSettings
) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": re.sub(r"\W+", "_", f"{route.method} {route.path}").lower().rstrip("_"),
    }
    if route.notes:
        operation["description"] = route.notes
    if route.public and settings.keys_file is not None:
        operation["security"] = []
    if route.body is not None:
        content = _content(schemas["body", route.path], route.requests)
        operation["requestBody"] = {"required": True, "content": {_JSON: content}}
    if isinstance(route.answer, str):
        answer: dict[str, Any] = {route.answer: {"schema": {"type": "string"}}}
    else:
        answer = {_JSON: _content(schemas["answer", route.path], route.answers)}
    error = {_JSON: _content(schemas["answer", ""], [("error", EXAMPLES["error"])])}
    operation["responses"] = {"200": {"description": "Success.", "content": answer}} | {
        str(status): {"description": _DESCRIPTIONS[status], "content": error}
        for status in sorted({STATUSES[refusal] for refusal in route.refusals})
    }
    return operation


def _content(schema: dict[str, Any], shown: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    values = {name: {"value": value} for name, value in shown}
    return {"schema": schema, "examples": values} if values else {"schema": schema}


def _describe(parts: Mapping[str, dict[str, Any]]) -> None:
    """Add the descriptions of attributes in the docstrings of records."""
    for name, schema in parts.items():
        schema.pop("title", None)
        kind = getattr(response_models, name, None) or getattr(records, name, None)
        texts: dict[str, str] = {}
        if dataclasses.is_dataclass(kind):
            for base in reversed(kind.__mro__):  # type: ignore[union-attr]
                texts |= dict(_ATTRIBUTE.findall(base.__doc__ or ""))
        for field, about in schema.get("properties", {}).items():
            about.pop("title", None)
            if field in texts:
                about.setdefault("description", _plain(texts[field]))
        if "description" in schema:
            schema["description"] = _plain(schema["description"].partition("\n\n")[0])


def _plain(text: str) -> str:
    """Return a docstring's text without its markup."""
    return " ".join(text.replace("``None``", "null").replace("``", "").replace("**", "").split())


def _add_limits(parts: Mapping[str, dict[str, Any]], settings: ServerSettings) -> None:
    """Add the limits of the settings to the fields of requests."""
    limits = dict.fromkeys(
        ("question", "response", "answer", "inputs"), ("maxLength", settings.max_characters)
    )
    limits["contexts"] = "maxItems", settings.max_contexts
    limits["examples"] = "maxItems", settings.max_examples
    evaluated = ("EvaluateOne", "EvaluateMany", "EvaluateMessages", "ExampleBody")
    others = ("RelevanceBody", "StreamBody")
    for name in (*evaluated, *others, "ClassifyBody", "ClassifyParameters"):
        for field, about in parts[name]["properties"].items():
            about |= dict([limits[field]]) if field in limits else {}
