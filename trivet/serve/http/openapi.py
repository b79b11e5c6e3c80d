"""``/openapi.json``: OpenAPI 3.1, made from the list of routes and the types of their bodies."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

import trivet
from trivet import records
from trivet.serve.http import examples, response_models
from trivet.serve.http.errors import STATUSES
from trivet.serve.http.route_list import ROUTES, RouteFacts, adapter
from trivet.serve.http.settings import ServerSettings

_JSON = "application/json"
_REF = "#/components/schemas/{model}"
_SAID = {
    400: "What was sent is no JSON, or no text.",
    401: "A key is needed.",
    408: "The request took too long to come.",
    413: "The body is too large.",
    422: "A field is missing, unknown, empty, too long or of another type.",
    429: "Too much to do; Retry-After says in how many seconds to come back.",
    500: "The engine failed, or the server.",
    503: "The server cannot answer now: it starts, shuts down or is broken.",
    504: "The request's time ran out.",
}
# An attribute of a docstring: its name, then what is said of it, over lines indented further.
_ATTRIBUTE = re.compile(r"^ {8}(\w+): (.+(?:\n {12,}.+)*)", re.MULTILINE)


def openapi(settings: ServerSettings) -> dict[str, Any]:
    """Return the whole document.

    Args:
        settings: The limits it names.
    """
    kinds = [("body", route.path, "validation", route.body) for route in ROUTES if route.body]
    kinds += [
        ("answer", route.path, "serialization", route.answer)
        for route in ROUTES
        if not isinstance(route.answer, str)
    ]
    kinds.append(("answer", "", "serialization", response_models.ErrorAnswer))
    found, definitions = adapter(response_models.ErrorAnswer).json_schemas(
        [((end, path), mode, adapter(kind)) for end, path, mode, kind in kinds],  # type: ignore[misc]
        ref_template=_REF,
    )
    schemas = {key: schema for (key, _), schema in found.items()}
    parts = definitions["$defs"]
    _describe(parts)
    _limit(parts, settings)
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        operation = _operation(route, schemas, settings)
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "Trivet",
            "version": trivet.__version__,
            "summary": "Judges RAG answers: faithfulness, relevance, utilization, completeness.",
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
    told: dict[str, Any] = {"200": {"description": "Done.", "content": answer}}
    error = {_JSON: _content(schemas["answer", ""], [("error", examples.ERROR)])}
    for status in sorted({STATUSES[refusal] for refusal in route.refusals}):
        told[str(status)] = {"description": _SAID[status], "content": error}
    operation["responses"] = told
    return operation


def _content(schema: dict[str, Any], shown: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    content: dict[str, Any] = {"schema": schema}
    values = {name: {"value": value} for name, value in shown}
    return {**content, "examples": values} if values else content


def _describe(parts: Mapping[str, dict[str, Any]]) -> None:
    """Put what the records' docstrings say of each attribute where the schema wants it."""
    for name, schema in parts.items():
        schema.pop("title", None)
        kind = getattr(response_models, name, None) or getattr(records, name, None)
        said = _attributes(kind) if dataclasses.is_dataclass(kind) else {}
        for field, about in schema.get("properties", {}).items():
            about.pop("title", None)
            if field in said:
                about.setdefault("description", said[field])
        if "description" in schema:
            schema["description"] = _plain(schema["description"].partition("\n\n")[0])


def _attributes(kind: Any) -> dict[str, str]:
    """Return what the docstrings of a record and of its bases say of its attributes."""
    said: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        for name, text in _ATTRIBUTE.findall(base.__doc__ or ""):
            said[name] = _plain(text)
    return said


def _plain(text: str) -> str:
    """Return a docstring's text as a reader of JSON knows it."""
    return " ".join(text.replace("``None``", "null").replace("``", "").replace("**", "").split())


def _limit(parts: Mapping[str, dict[str, Any]], settings: ServerSettings) -> None:
    """Name the limits of this server where a request would meet them."""
    limits = {
        "contexts": ("maxItems", settings.max_contexts),
        "examples": ("maxItems", settings.max_examples),
        "question": ("maxLength", settings.max_characters),
        "response": ("maxLength", settings.max_characters),
        "answer": ("maxLength", settings.max_characters),
    }
    for name in (
        "EvaluateOne",
        "EvaluateMany",
        "ExampleBody",
        "RelevanceBody",
        "LettuceDetectBody",
    ):
        for field, (keyword, limit) in limits.items():
            if field in parts[name]["properties"]:
                parts[name]["properties"][field][keyword] = limit
