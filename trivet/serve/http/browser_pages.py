"""Pages without external resources: ``/`` and ``/try``."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from jinja2 import ChoiceLoader, PackageLoader
from markupsafe import Markup

import trivet
from trivet.report.pages import ENVIRONMENT, content_policy, to_html
from trivet.report.verdict_files import VerdictRow
from trivet.serve.http.request_models import EvaluateOne, context_ids
from trivet.serve.http.request_service import RequestService
from trivet.serve.http.routing import add_get
from trivet.serve.http.server_settings import ServerSettings

# The page, the style and the escaping are the report's.
PAGES = ENVIRONMENT.overlay(
    loader=ChoiceLoader([PackageLoader("trivet.serve.http"), PackageLoader("trivet.report")])
)
_NO_SCRIPT = ""
_UNCACHED = {"Cache-Control": "no-store"}


def add_index_route(router: APIRouter, model: str, settings: ServerSettings) -> None:
    """Add the route of ``/``, which says what the server of the bundle ``model`` is."""
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

    add_get(router, "/", show)


def add_try_routes(
    public: APIRouter, router: APIRouter, service: RequestService, settings: ServerSettings
) -> None:
    """Add the routes of ``/try``, which judges one pasted answer, and of its verdicts.

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

    async def show(request: Request) -> Response:
        return _html(page, policy, **_UNCACHED)

    async def judge(request: Request, body: EvaluateOne) -> Response:
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

    add_get(public, "/try", show)
    router.post("/try/verdict", include_in_schema=False)(judge)


def _html(page: str, policy: str | None = None, **headers: str) -> Response:
    """Return a page; without a policy it may run no script."""
    headers["Content-Security-Policy"] = policy or content_policy(_NO_SCRIPT)
    return Response(page, media_type="text/html", headers=headers)
