"""The ASGI app: all routes, inside the middleware."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response

import trivet
from trivet.evaluation.evaluator import Evaluator
from trivet.serve.http.docs_page import docs_routes
from trivet.serve.http.gateway_route import gateway_route
from trivet.serve.http.health import Health, health_routes
from trivet.serve.http.index_page import index_route
from trivet.serve.http.keys import KeyRing
from trivet.serve.http.metrics import Metrics
from trivet.serve.http.open_inference import open_inference_routes
from trivet.serve.http.request_middleware import RequestMiddleware
from trivet.serve.http.request_service import RequestService
from trivet.serve.http.response_models import InfoAnswer
from trivet.serve.http.settings import ServerSettings
from trivet.serve.http.stream_route import stream_route
from trivet.serve.http.try_page import try_routes
from trivet.serve.http.v1_routes import v1_routes
from trivet.serve.scheduling.batcher import Batcher

if TYPE_CHECKING:
    from trivet.serve.http.otlp import TraceReceiver
    from trivet.serve.http.telemetry import Telemetry


def build_app(
    evaluator: Evaluator,
    batcher: Batcher,
    health: Health,
    metrics: Metrics,
    settings: ServerSettings,
    keys: KeyRing | None = None,
    telemetry: Telemetry | None = None,
    receiver: TraceReceiver | None = None,
) -> Starlette:
    """Return the app; the caller starts and stops the batcher in the app's event loop.

    Without ``keys`` every client is allowed; without ``telemetry`` no spans are exported, without
    ``receiver`` none are received.
    """
    metrics.describe(
        version=trivet.__version__,
        bundle=evaluator.bundle.info.name,
        backend=evaluator.backend_name,
        precision=evaluator.precision,
    )
    metrics.read_queue_from(batcher.state)
    service = RequestService(batcher, metrics, settings)
    app = Starlette(
        routes=[
            *v1_routes(service, InfoAnswer.of(evaluator, settings)),
            stream_route(service, evaluator),
            gateway_route(service, evaluator, settings),
            *open_inference_routes(service, health),
            *health_routes(health, metrics),
            *docs_routes(settings),
            index_route(evaluator.bundle.info.name, settings),
            *try_routes(service, settings),
            *([] if receiver is None else receiver.routes()),
        ],
        middleware=[
            *([] if telemetry is None else [Middleware(telemetry.around)]),
            *([] if settings.cors is None else [_cross_origin(settings.cors)]),
            Middleware(
                RequestMiddleware, health=health, metrics=metrics, keys=keys, settings=settings
            ),
        ],
        exception_handlers={HTTPException: _raise},
    )
    # A redirect would repeat the client's path and lose the body of a POST.
    app.router.redirect_slashes = False
    return app


def _cross_origin(origins: Sequence[str]) -> Middleware:
    """Return the middleware by which browsers let pages of these origins ask this server."""
    return Middleware(
        CORSMiddleware,
        allow_origins=origins,
        allow_methods=["GET", "POST"],
        allow_headers=["Authorization", "Content-Type", "X-Request-Id"],
        expose_headers=["X-Request-Id", "Server-Timing", "Retry-After"],
    )


async def _raise(request: Request, error: Exception) -> Response:
    """Leave errors of the router to the middleware, which gives them the common form."""
    raise error
