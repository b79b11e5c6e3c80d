"""``/docs``: every route on one page that loads nothing; and ``/openapi.json`` beside it."""

from __future__ import annotations

import functools
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import ChoiceLoader, PackageLoader
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from trivet.records import to_json_text
from trivet.report.pages import ENVIRONMENT, content_policy
from trivet.serve.http.errors import STATUSES
from trivet.serve.http.openapi import openapi
from trivet.serve.http.route_list import ROUTES, RouteFacts
from trivet.serve.http.settings import ServerSettings

# The report's page, its style and its escaping; ours is the middle.
_ENVIRONMENT = ENVIRONMENT.overlay(
    loader=ChoiceLoader([PackageLoader("trivet.serve.http"), PackageLoader("trivet.report")])
)
_NO_SCRIPT = ""
_LEAD = (
    "Every error is an object with error (for people), error_type (for programs) and request_id. "
    "Send X-Request-Id to name a request yourself. Server-Timing says in milliseconds where the "
    "time went. The numbers on this page are examples."
)


@dataclass(frozen=True)
class _Table:
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class _Shown:
    """A route as the page has it."""

    name: str
    anchor: str
    summary: str
    notes: str
    public: bool
    tables: Sequence[_Table]
    commands: Sequence[str]
    answers: Sequence[tuple[str, str]]


def docs_routes(settings: ServerSettings) -> list[Route]:
    """Return the routes of the documentation; it is made when it is first asked for.

    Args:
        settings: The limits and the address that it names.
    """

    @functools.cache
    def document() -> dict[str, Any]:
        return openapi(settings)

    @functools.cache
    def page() -> str:
        return docs_page(document(), settings)

    async def tell(request: Request) -> Response:
        text = await run_in_threadpool(lambda: to_json_text(document()))
        return Response(text, media_type="application/json")

    async def show(request: Request) -> Response:
        headers = {"Content-Security-Policy": content_policy(_NO_SCRIPT)}
        return Response(await run_in_threadpool(page), media_type="text/html", headers=headers)

    return [
        Route("/openapi.json", tell, methods=["GET"]),
        Route("/docs", show, methods=["GET"]),
    ]


def docs_page(document: Mapping[str, Any], settings: ServerSettings) -> str:
    """Return the page.

    Args:
        document: ``openapi(settings)``.
        settings: Say where the server is, and whether it wants a key.
    """
    routes = [_show(route, document, settings) for route in ROUTES]
    parts = document["components"]["schemas"]
    shown = {table.title.rpartition(" ")[2] for route in routes for table in route.tables}
    return _ENVIRONMENT.get_template("docs.html").render(
        script=_NO_SCRIPT,
        content_policy=content_policy(_NO_SCRIPT),
        title="Trivet: HTTP routes",
        lead=_LEAD,
        routes=routes,
        types=[_table(name, part) for name, part in parts.items() if name not in shown],
    )


def _show(route: RouteFacts, document: Mapping[str, Any], settings: ServerSettings) -> _Shown:
    operation = document["paths"][route.path][route.method.lower()]
    parts = document["components"]["schemas"]
    tables = []
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        tables += [_table(f"Request: {name}", parts[name]) for name in _named(schema)]
    good = operation["responses"]["200"]["content"].get("application/json", {}).get("schema", {})
    tables += [_table(f"Answer: {name}", parts[name]) for name in _named(good)]
    refusals = [(str(STATUSES[name]), name) for name in route.refusals]
    tables.append(_Table("Refusals", ("status", "error_type"), sorted(refusals)))
    return _Shown(
        name=f"{route.method} {route.path}",
        anchor=operation["operationId"],
        summary=route.summary,
        notes=route.notes,
        public=route.public,
        tables=tables,
        commands=_commands(route, settings),
        answers=[(name, json.dumps(value, indent=2)) for name, value in route.answers],
    )


def _named(schema: Mapping[str, Any]) -> list[str]:
    """Return the names of the parts that a schema is one of."""
    choices = schema.get("oneOf") or schema.get("anyOf") or [schema]
    return [choice["$ref"].rpartition("/")[2] for choice in choices if "$ref" in choice]


def _table(title: str, part: Mapping[str, Any]) -> _Table:
    """Return the fields of a part."""
    needed = part.get("required", ())
    rows = [
        (
            name if name in needed else f"{name} (optional)",
            _type(about),
            str(about.get("description", "")),
        )
        for name, about in part.get("properties", {}).items()
    ]
    return _Table(title, ("field", "type", "meaning"), rows)


def _type(about: Mapping[str, Any]) -> str:
    """Say a schema's type in few words."""
    if "$ref" in about:
        return str(about["$ref"].rpartition("/")[2])
    choices = about.get("anyOf") or about.get("oneOf")
    if choices:
        return " or ".join(_type(choice) for choice in choices)
    if about.get("type") == "array":
        most = f", at most {about['maxItems']}" if "maxItems" in about else ""
        return f"list of {_type(about.get('items', {}))}{most}"
    return str(about.get("type", "any"))


def _commands(route: RouteFacts, settings: ServerSettings) -> list[str]:
    """Return lines for a shell that try the route."""
    scheme = "http" if settings.tls_cert is None else "https"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"{scheme}://{host}:{settings.port}{route.path}"
    key = ""
    if settings.keys_file is not None and not route.public:
        key = '-H "Authorization: Bearer $TRIVET_KEY" '
    if not route.requests:
        return [f"curl {key}{url}"]
    return [f"curl {key}{url} -d {shlex.quote(json.dumps(body))}" for _, body in route.requests]
