"""Pages without external resources: ``/``, ``/docs`` with ``/openapi.json``, and ``/try``."""

from __future__ import annotations

import functools
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jinja2 import ChoiceLoader, PackageLoader
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import trivet
from trivet.records import to_json_text
from trivet.report.pages import ENVIRONMENT, content_policy, to_html
from trivet.report.verdict_files import VerdictRow
from trivet.serve.http.errors import STATUSES
from trivet.serve.http.openapi import ROUTES, RouteFacts, openapi
from trivet.serve.http.request_models import EvaluateOne, context_ids, parser
from trivet.serve.http.request_service import RequestService
from trivet.serve.http.settings import ServerSettings

# The page, the style and the escaping are the report's.
PAGES = ENVIRONMENT.overlay(
    loader=ChoiceLoader([PackageLoader("trivet.serve.http"), PackageLoader("trivet.report")])
)
_NO_SCRIPT = ""
_UNCACHED = {"Cache-Control": "no-store"}
_LEAD = (
    "Every error is an object with error (for people), error_type (for programs) and request_id. "
    "Send X-Request-Id to set the request_id. Server-Timing lists the milliseconds of each stage. "
    "The numbers on this page are examples. /try judges one pasted answer."
)


class _Table(NamedTuple):
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def docs_routes(settings: ServerSettings) -> list[Route]:
    """Return the routes of the documentation, which is made at the first request."""

    @functools.cache
    def document() -> dict[str, Any]:
        return openapi(settings)

    @functools.cache
    def page() -> str:
        return docs_page(document(), settings)

    async def show_schema(request: Request) -> Response:
        text = await run_in_threadpool(lambda: to_json_text(document()))
        return Response(text, media_type="application/json")

    async def show_page(request: Request) -> Response:
        return _html(await run_in_threadpool(page))

    return [
        Route("/openapi.json", show_schema, methods=["GET"]),
        Route("/docs", show_page, methods=["GET"]),
    ]


def docs_page(document: Mapping[str, Any], settings: ServerSettings) -> str:
    """Return the page for an OpenAPI document of the same settings."""
    routes = [_show(route, document, settings) for route in ROUTES]
    shown = {table.title.rpartition(" ")[2] for route in routes for table in route["tables"]}
    parts = document["components"]["schemas"].items()
    return PAGES.get_template("docs.html").render(
        script=_NO_SCRIPT,
        content_policy=content_policy(_NO_SCRIPT),
        title="Trivet: HTTP routes",
        lead=_LEAD,
        routes=routes,
        types=[_table(name, part) for name, part in parts if name not in shown],
    )


def _show(route: RouteFacts, document: Mapping[str, Any], settings: ServerSettings) -> Any:
    """Return a route for the template."""
    operation = document["paths"][route.path][route.method.lower()]
    parts = document["components"]["schemas"]
    answer = operation["responses"]["200"]["content"]
    contents = {"Answer": answer.get("application/json", {})}
    if "requestBody" in operation:
        body = operation["requestBody"]["content"]["application/json"]
        contents = {"Request": body, **contents}
    tables = []
    for kind, content in contents.items():
        schema = content.get("schema", {})
        for choice in schema.get("oneOf") or schema.get("anyOf") or [schema]:
            if "$ref" in choice:
                name = choice["$ref"].rpartition("/")[2]
                tables.append(_table(f"{kind}: {name}", parts[name]))
    refusals = sorted((str(STATUSES[name]), name) for name in route.refusals)
    return {
        "name": f"{route.method} {route.path}",
        "anchor": operation["operationId"],
        "summary": route.summary,
        "notes": route.notes,
        "public": route.public,
        "tables": [*tables, _Table("Refusals", ("status", "error_type"), refusals)],
        "commands": _commands(route, settings),
        "answers": [(name, json.dumps(value, indent=2)) for name, value in route.answers],
    }


def _table(title: str, part: Mapping[str, Any]) -> _Table:
    """Return the fields of a schema."""
    required = part.get("required", ())
    rows = [
        (
            name if name in required else f"{name} (optional)",
            _type(about),
            str(about.get("description", "")),
        )
        for name, about in part.get("properties", {}).items()
    ]
    return _Table(title, ("field", "type", "meaning"), rows)


def _type(about: Mapping[str, Any]) -> str:
    """Return a schema's type in words."""
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
    """Return shell commands that try the route."""
    needs_key = settings.keys_file is not None and not route.public
    key = '-H "Authorization: Bearer $TRIVET_KEY" ' if needs_key else ""
    command = f"curl {key}{settings.url}{route.path}"
    bodies = [f"{command} -d {shlex.quote(json.dumps(body))}" for _, body in route.requests]
    return bodies or [command]


def index_route(model: str, settings: ServerSettings) -> Route:
    """Return the route of ``/``, which says what the server of the bundle ``model`` is."""
    page = PAGES.get_template("index.html").render(
        script=_NO_SCRIPT,
        content_policy=content_policy(_NO_SCRIPT),
        title="Trivet",
        version=trivet.__version__,
        model=model,
        keys=settings.keys_file is not None,
    )

    async def show(request: Request) -> Response:
        return _html(page)

    return Route("/", show, methods=["GET"])


def try_routes(service: RequestService, settings: ServerSettings) -> list[Route]:
    """Return the routes of ``/try``, which judges one pasted answer, and of its verdicts.

    The server keeps no text, the page loads nothing from elsewhere, and the browser is told to
    cache nothing.
    """
    script = PAGES.get_template("try.js").render()
    policy = content_policy(script, fetches=True)
    page = PAGES.get_template("try.html").render(
        script=Markup(script),
        content_policy=policy,
        title="Try Trivet",
        keys=settings.keys_file is not None,
    )
    parse = parser(EvaluateOne)

    async def show(request: Request) -> Response:
        return _html(page, policy, **_UNCACHED)

    async def judge(request: Request) -> Response:
        body: EvaluateOne = await service.read(request, parse)
        example = body.example()
        predictions, verdict = await service.evaluate_one(request, example, body)
        row = VerdictRow(
            row=1,
            id=body.id,
            question=body.question,
            contexts=example.contexts,
            response=body.response,
            context_ids=tuple(context_ids(example) or ()),
        )
        fragment = await service.write(predictions, lambda: to_html(verdict, row))
        return _html(fragment, **_UNCACHED)

    return [
        Route("/try", show, methods=["GET"]),
        Route("/try/verdict", judge, methods=["POST"]),
    ]


def _html(page: str, policy: str | None = None, **headers: str) -> Response:
    """Return a page; without a policy it may run no script."""
    headers["Content-Security-Policy"] = policy or content_policy(_NO_SCRIPT)
    return Response(page, media_type="text/html", headers=headers)
