"""The app: every route, and what surrounds them, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

import trivet
from trivet.evaluation.evaluator import Evaluator
from trivet.serve.http.body_limit import BodyLimit
from trivet.serve.http.docs_page import docs_routes
from trivet.serve.http.health import Health
from trivet.serve.http.health_routes import health_routes
from trivet.serve.http.keys import KeyRing
from trivet.serve.http.lettucedetect_route import lettucedetect_route
from trivet.serve.http.metrics import Counters
from trivet.serve.http.open_inference import open_inference_routes
from trivet.serve.http.request_middleware import Envelope
from trivet.serve.http.request_service import Judging
from trivet.serve.http.settings import ServerSettings
from trivet.serve.http.v1_routes import describe, v1_routes
from trivet.serve.scheduling.batcher import Batcher

if TYPE_CHECKING:
    from trivet.serve.http.telemetry import Telemetry


def build_app(
    evaluator: Evaluator,
    batcher: Batcher,
    health: Health,
    counters: Counters,
    settings: ServerSettings,
    keys: KeyRing | None = None,
    telemetry: Telemetry | None = None,
) -> Starlette:
    """Return the app. It starts and stops nothing: whoever calls it does.

    Args:
        evaluator: Says what answers.
        batcher: Judges; started in the event loop that will run the app.
        health: Says whether it can.
        counters: Counts; of this app alone.
        settings: Every limit.
        keys: Who may ask; ``None`` lets everybody.
        telemetry: Who is told of every verdict, if anyone.
    """
    info = evaluator.bundle.info
    counters.describe(
        version=trivet.__version__,
        bundle=info.name,
        backend=evaluator.backend_name,
        precision=evaluator.precision,
    )
    counters.read_queue_from(batcher.state)
    judging = Judging(batcher, counters, settings)
    app = Starlette(
        routes=[
            *v1_routes(judging, describe(evaluator, settings)),
            lettucedetect_route(judging),
            *open_inference_routes(judging, health),
            *health_routes(health, counters),
            *docs_routes(settings),
        ],
        middleware=[
            *([] if telemetry is None else [Middleware(telemetry.around)]),
            Middleware(Envelope, counters=counters, keys=keys),
            Middleware(BodyLimit, max_bytes=settings.max_body_bytes),
        ],
        exception_handlers={HTTPException: _hand_on},
    )
    # A redirect would repeat the caller's path, and lose the body of a POST.
    app.router.redirect_slashes = False
    return app


async def _hand_on(request: Request, error: Exception) -> Response:
    """Leave what the router raises to the envelope, where all errors get their shape."""
    raise error
