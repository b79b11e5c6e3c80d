"""A server from its evaluator to its socket: app, start, warm-up, answers, draining."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI, Request, Response, Security
from fastapi.middleware import Middleware
from fastapi.middleware.cors import CORSMiddleware
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

import trivet
from trivet.errors import BackendError
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.window_queue import Overloaded
from trivet.records import FailedEvaluation, RagExample
from trivet.serve.http.batcher import Batcher
from trivet.serve.http.browser_pages import add_index_route, add_try_routes
from trivet.serve.http.evaluation_routes import add_gateway_route, add_stream_route, add_v1_routes
from trivet.serve.http.health import CANARY, Health, add_health_routes
from trivet.serve.http.http_server import HttpServer
from trivet.serve.http.keys import KeyRing
from trivet.serve.http.prometheus_metrics import Metrics
from trivet.serve.http.request_middleware import RequestMiddleware
from trivet.serve.http.request_service import RequestService
from trivet.serve.http.response_models import InfoAnswer
from trivet.serve.http.routing import route_class
from trivet.serve.http.server_settings import ServerSettings
from trivet.serve.http.systemone import add_systemone_route

if TYPE_CHECKING:
    from trivet.serve.http.telemetry import Telemetry

logger = logging.getLogger(__name__)

# Longest wait for unread responses and unfinished requests after the last verdict.
_LAST_SECONDS = 3.0
_CLOSE_SECONDS = 0.5
_RETRY_SECONDS = 0.05


def build_app(
    evaluator: Evaluator,
    batcher: Batcher,
    health: Health,
    metrics: Metrics,
    settings: ServerSettings,
    keys: KeyRing | None = None,
    telemetry: Telemetry | None = None,
) -> FastAPI:
    """Return the app; the caller starts and stops the batcher in the app's event loop.

    Without ``keys`` every client is allowed; without ``telemetry`` no spans are exported.
    """
    metrics.describe(
        version=trivet.__version__,
        bundle=evaluator.bundle.info.name,
        backend=evaluator.backend_name,
        precision=evaluator.precision,
    )
    metrics.read_queue_from(batcher.state)
    service = RequestService(batcher, metrics, settings)
    needs_key = [] if keys is None else [Security(HTTPBearer(auto_error=False))]
    kind = route_class(service)
    public, router = (
        APIRouter(route_class=kind),
        APIRouter(route_class=kind, dependencies=needs_key),
    )
    add_v1_routes(router, service, InfoAnswer.of(evaluator, settings))
    add_stream_route(router, service, evaluator)
    add_gateway_route(router, service, evaluator, settings)
    add_systemone_route(router, service, evaluator)
    add_health_routes(public, router, health, metrics)
    add_index_route(public, evaluator.bundle.info.name, settings)
    add_try_routes(public, router, service, settings)
    app = FastAPI(
        title="Trivet",
        summary="Evaluates RAG answers: faithfulness, relevance, utilization, completeness.",
        version=trivet.__version__,
        redoc_url=None,
        # A redirect would repeat the client's path and lose the body of a POST.
        redirect_slashes=False,
        middleware=[
            *([] if telemetry is None else [Middleware(telemetry.around)]),
            *([] if settings.cors is None else [_cross_origin(settings.cors)]),
            Middleware(
                RequestMiddleware, health=health, metrics=metrics, keys=keys, settings=settings
            ),
        ],
        exception_handlers={HTTPException: _raise},
    )
    app.include_router(public)
    app.include_router(router)
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


class RunningServer:
    """One evaluator behind one socket; needs a running event loop.

    Attributes:
        app: The app behind the socket.
        url: URL of the server, once it has started.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        settings: ServerSettings,
        keys: KeyRing | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        """Build the parts without starting them; arguments as in ``build_app``."""
        self._settings = settings
        metrics = Metrics()
        self.health = Health(
            canary_seconds=settings.canary_seconds, hung_seconds=settings.hung_seconds
        )
        self.batcher = Batcher(
            evaluator,
            max_requests=settings.max_requests,
            max_windows=settings.max_queued_windows,
            wait_ms=settings.wait_ms,
            watch=metrics,
        )
        self.app = build_app(
            evaluator, self.batcher, self.health, metrics, settings, keys, telemetry
        )
        self._window = evaluator.bundle.info.window.size
        self._workers = evaluator.workers
        self._http: HttpServer | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.url = ""

    async def start(self, bound: socket.socket) -> None:
        """Accept connections on a socket from ``bind``; become ready once the backend has answered.

        Raises:
            ConfigError: The certificate cannot be read, or the limit of open files is too low.
            BackendError: The backend fails on a stored example.
        """
        self._http = HttpServer(self.app, bound, self._settings)
        self.url = self._http.url
        self._http.start()
        await self._warm_up()
        self.health.warmed(self.batcher)
        self._tasks.append(asyncio.create_task(self.health.watch()))

    async def stop(self) -> bool:
        """Refuse new work, finish accepted work, and close; return whether all was answered."""
        deadline = asyncio.get_running_loop().time() + self._settings.grace_seconds
        self.health.drain()
        for task in self._tasks:
            task.cancel()
        await self.health.close()
        finished = await self.batcher.drain(self._settings.grace_seconds)
        if self._http is not None:
            left = deadline - asyncio.get_running_loop().time()
            await self._http.close(min(_LAST_SECONDS, max(_CLOSE_SECONDS, left)))
        with contextlib.suppress(TimeoutError):  # a hung call cannot be ended
            await asyncio.wait_for(self.batcher.close(), _CLOSE_SECONDS)
        return finished

    async def _warm_up(self) -> None:
        """Evaluate examples of several lengths, one by one and then one for each worker."""
        stored = warm_up_examples(self._window)
        for examples in (*([example] for example in stored), [stored[-1]] * self._workers):
            for result in await self._evaluate(examples):
                if isinstance(result, FailedEvaluation):
                    raise BackendError(
                        f"the backend cannot evaluate a stored example ({result.code}): "
                        f"{result.message}"
                    )

    async def _evaluate(self, examples: list[RagExample]) -> tuple[object, ...]:
        """Evaluate examples, again while requests that came in early fill the queue."""
        while True:
            try:
                return (await self.batcher.evaluate(examples)).results
            except Overloaded:
                await asyncio.sleep(_RETRY_SECONDS)


def warm_up_examples(window: int) -> list[RagExample]:
    """Return the canary and three longer examples, up to a full window of so many tokens."""
    texts = ["river " * length for length in (window // 4, window // 2, window)]
    return [CANARY, *(RagExample(CANARY.question, (text,), CANARY.response) for text in texts)]
