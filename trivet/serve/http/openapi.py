"""``/openapi.json``: OpenAPI 3.1, made from the list of routes and the types of their bodies."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter

import trivet
from trivet import records
from trivet.serve.http import response_models
from trivet.serve.http.errors import STATUSES
from trivet.serve.http.route_list import EXAMPLES, RouteFacts, routes_of
from trivet.serve.http.settings import ServerSettings

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
    routes = routes_of(settings)
    kinds: list[Any] = [("body", r.path, "validation", r.body) for r in routes if r.body]
    kinds += [
        ("answer", r.path, "serialization", r.answer)
        for r in routes
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
    for route in routes:
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
    others = ("RelevanceBody", "StreamBody", "LettuceDetectBody")
    for name in (*evaluated, *others, "ClassifyBody", "ClassifyParameters"):
        for field, about in parts[name]["properties"].items():
            about |= dict([limits[field]]) if field in limits else {}
