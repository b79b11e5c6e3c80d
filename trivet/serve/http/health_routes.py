"""What machines ask again and again: probes, and the metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from trivet.records import to_json_text
from trivet.serve.http.errors import RequestError
from trivet.serve.http.health import Health
from trivet.serve.http.metrics import Counters

Probe = Callable[[], str | None]
"""Returns what is wrong, or ``None``."""


def health_routes(health: Health, counters: Counters) -> list[Route]:
    """Return the routes of ``/health``, those of the Open Inference Protocol, and ``/metrics``.

    Args:
        health: Who knows.
        counters: Who counted.
    """

    async def metrics(request: Request) -> Response:
        page, media_type = await run_in_threadpool(counters.page, request.headers.get("accept"))
        return Response(page, media_type=media_type)

    return [
        probe_route("/health/live", health.live, {"status": "live"}),
        probe_route("/health/ready", health.ready, {"status": "ready"}),
        probe_route("/v2/health/live", health.live, {"live": True}),
        probe_route("/v2/health/ready", health.ready, {"ready": True}),
        Route("/metrics", metrics, methods=["GET"]),
    ]


def probe_route(path: str, probe: Probe, fine: dict[str, Any]) -> Route:
    """Return a route that answers 200 as long as nothing is wrong, else 503 with the reason.

    Args:
        path: Of the route.
        probe: Says what is wrong.
        fine: The answer where nothing is.
    """
    answer = to_json_text(fine)

    async def look(request: Request) -> Response:
        reason = probe()
        if reason is not None:
            raise RequestError("unhealthy", reason)
        return Response(answer, media_type="application/json")

    return Route(path, look, methods=["GET"])
