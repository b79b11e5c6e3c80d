"""Routes of FastAPI whose bodies ``RequestService`` reads.

An endpoint takes the request and, for a POST, a ``body``, whose type FastAPI documents. A full
queue refuses before a body is read; types are exact, and faults are in our words.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, get_type_hints

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute

from trivet.serve.http.request_errors import STATUSES
from trivet.serve.http.request_models import parser
from trivet.serve.http.request_service import RequestService
from trivet.serve.http.response_models import ErrorAnswer

Endpoint = Callable[[Request], Awaitable[Response]]

_NO_BODY = {"unauthorized", "not_found", "method_not_allowed", "client_gone", "unhealthy"}
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer, "description": HTTPStatus(status).phrase}
    for status in sorted({status for kind, status in STATUSES.items() if kind not in _NO_BODY})
}
"""Error responses of a route with a body, for its documentation."""


def route_class(service: RequestService) -> type[APIRoute]:
    """Return the class of the routes whose bodies a service reads."""

    class ServiceRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Any]:
            endpoint: Any = self.endpoint
            body = get_type_hints(endpoint, include_extras=True).get("body")
            if body is None:
                return endpoint  # type: ignore[no-any-return]
            parse = parser(body)

            async def handle(request: Request) -> Response:
                response: Response = await endpoint(request, await service.read(request, parse))
                return response

            return handle

    return ServiceRoute


def add_get(
    router: APIRouter, path: str, endpoint: Endpoint, summary: str = "", **documented: Any
) -> None:
    """Add a route for GET and HEAD; without a summary it is not documented."""
    shown = bool(summary)
    router.add_api_route(
        path, endpoint, methods=["GET"], summary=summary, include_in_schema=shown, **documented
    )
    router.add_api_route(path, endpoint, methods=["HEAD"], include_in_schema=False)
