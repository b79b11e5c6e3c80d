"""``/try``: a page that judges one pasted answer, and the route that its script asks.

The server keeps no text, the page loads nothing from elsewhere, and the browser is told to cache
nothing.
"""

from __future__ import annotations

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from trivet.report.pages import content_policy, to_html
from trivet.report.verdict_files import VerdictRow
from trivet.serve.http.docs_page import PAGES
from trivet.serve.http.request_models import EvaluateOne, context_ids, parser, texts
from trivet.serve.http.request_service import RequestService
from trivet.serve.http.settings import ServerSettings

_UNCACHED = {"Cache-Control": "no-store"}


def try_routes(service: RequestService, settings: ServerSettings) -> list[Route]:
    """Return the routes of the page and of its verdicts."""
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
        headers = {"Content-Security-Policy": policy, **_UNCACHED}
        return Response(page, media_type="text/html", headers=headers)

    async def judge(request: Request) -> Response:
        body: EvaluateOne = await service.read(request, parse)
        predictions, verdict = await service.evaluate_one(request, body.example(), body)
        row = VerdictRow(
            row=1,
            id=body.id,
            question=body.question,
            contexts=texts(body.contexts),
            response=body.response,
            context_ids=tuple(context_ids(body.contexts) or ()),
        )
        fragment = await service.write(predictions, lambda: to_html(verdict, row))
        headers = {"Content-Security-Policy": content_policy(""), **_UNCACHED}
        return Response(fragment, media_type="text/html", headers=headers)

    return [
        Route("/try", show, methods=["GET"]),
        Route("/try/verdict", judge, methods=["POST"]),
    ]
