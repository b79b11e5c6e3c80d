"""``/``: a page that says what the server is, with links to its other pages."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import trivet
from trivet.report.pages import content_policy
from trivet.serve.http.docs_page import PAGES
from trivet.serve.http.settings import ServerSettings

_NO_SCRIPT = ""


def index_route(model: str, settings: ServerSettings) -> Route:
    """Return the route of the page, for a server of the bundle named ``model``."""
    policy = content_policy(_NO_SCRIPT)
    page = PAGES.get_template("index.html").render(
        script=_NO_SCRIPT,
        content_policy=policy,
        title="Trivet",
        version=trivet.__version__,
        model=model,
        keys=settings.keys_file is not None,
    )

    async def show(request: Request) -> Response:
        return Response(page, media_type="text/html", headers={"Content-Security-Policy": policy})

    return Route("/", show, methods=["GET"])
