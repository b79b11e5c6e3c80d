"""A server from its evaluator to its socket: app, start, warm-up, answers, draining.

The HTTP protocol is that of granian's embedded server.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import resource
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.net import SocketHolder  # type: ignore[attr-defined]
from granian.server.embed import Server
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

import trivet
from trivet.errors import BackendError, ConfigError
from trivet.evaluation.evaluator import Evaluator
from trivet.records import FailedEvaluation, RagExample
from trivet.serve.http.evaluation_routes import gateway_route, stream_route, v1_routes
from trivet.serve.http.health import CANARY, Health, health_routes
from trivet.serve.http.keys import KeyRing
from trivet.serve.http.metrics import Metrics
from trivet.serve.http.pages import docs_routes, index_route, try_routes
from trivet.serve.http.request_middleware import RequestMiddleware
from trivet.serve.http.request_service import RequestService
from trivet.serve.http.response_models import InfoAnswer
from trivet.serve.http.settings import ServerSettings
from trivet.serve.scheduling.batched_request import Overloaded
from trivet.serve.scheduling.batcher import Batcher

if TYPE_CHECKING:
    from trivet.serve.http.telemetry import Telemetry

logger = logging.getLogger(__name__)

# Longest wait for unread responses and unfinished requests after the last verdict.
_LAST_SECONDS = 3.0
_CLOSE_SECONDS = 0.5
_RETRY_SECONDS = 0.05
_HEADER_BYTES = 32_768  # of one request; granian also allows at most 100 header lines
_OTHER_DESCRIPTORS = 64  # files that are not connections: bundle, logs, keys, libraries


def build_app(
    evaluator: Evaluator,
    batcher: Batcher,
    health: Health,
    metrics: Metrics,
    settings: ServerSettings,
    keys: KeyRing | None = None,
    telemetry: Telemetry | None = None,
) -> Starlette:
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
    app = Starlette(
        routes=[
            *v1_routes(service, InfoAnswer.of(evaluator, settings)),
            stream_route(service, evaluator),
            gateway_route(service, evaluator, settings),
            *health_routes(health, metrics),
            *docs_routes(settings),
            index_route(evaluator.bundle.info.name, settings),
            *try_routes(service, settings),
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
            most_requests=settings.max_requests,
            most_windows=settings.max_queued_windows,
            wait_ms=settings.wait_ms,
            watch=metrics,
        )
        self.app = build_app(
            evaluator, self.batcher, self.health, metrics, settings, keys, telemetry
        )
        self._window = evaluator.bundle.info.window.size
        self._workers = evaluator.workers
        self._http: GranianServer | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.url = ""

    async def start(self, bound: socket.socket) -> None:
        """Accept connections on a socket from ``bind``; become ready once the backend has answered.

        Raises:
            ConfigError: The certificate cannot be read, or the limit of open files is too low.
            BackendError: The backend fails on a stored example.
        """
        self._http = GranianServer(self.app, bound, self._settings)
        self.url = self._http.url
        self._http.start()
        await self.batcher.start()
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
        for examples in (*([each] for each in stored), [stored[-1]] * self._workers):
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


class GranianServer(Server):
    """One listening socket, reached at ``url``, and its connections."""

    def __init__(self, app: ASGIApp, bound: socket.socket, settings: ServerSettings) -> None:
        """Listen on a socket from ``bind``; the app must turn its exceptions into responses.

        Raises:
            ConfigError: The certificate or its key cannot be read, or the limit of open files is
                too low.
        """
        most = most_connections(settings.max_connections)
        host, port = bound.getsockname()[:2]
        self.url = dataclasses.replace(settings, host=host, port=port).url
        try:
            super().__init__(
                app,
                address=host,
                port=port,
                interface=Interfaces.ASGINL,
                http=HTTPModes.http1,
                websockets=False,
                backlog=max(128, most),
                backpressure=most,
                runtime_threads=1,
                runtime_blocking_threads=1,
                http1_settings=HTTP1Settings(
                    header_read_timeout=int(1000 * settings.header_timeout_seconds),
                    max_buffer_size=_HEADER_BYTES,
                ),
                log_enabled=False,
                ssl_cert=settings.tls_cert,
                ssl_key=settings.tls_key,
                ssl_protocol_min=SSLProtocols.tls12,
            )
        except OSError as error:  # includes ssl.SSLError
            raise ConfigError(
                f"TLS cannot be set up with {settings.tls_cert} and {settings.tls_key}: {error}"
            ) from error
        # Accepted connections inherit the options. The timeout drops clients that do not read.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            milliseconds = int(1000 * settings.body_timeout_seconds)
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        # From here on the kernel accepts connections; they wait until granian has started.
        bound.listen(self.backlog)
        self._bound = bound
        self._serving: asyncio.Task[None] | None = None

    def _init_shared_socket(self) -> None:
        # granian's own sockets take IP literals only, share their port, and hide which one it is.
        self._shd = SocketHolder(self._bound.detach(), False, self.backlog)  # type: ignore

    def start(self) -> None:
        """Accept connections, in the running event loop."""
        self._serving = asyncio.create_task(self.serve())

    async def close(self, seconds: float) -> None:
        """Stop accepting, and wait some seconds for connections in use."""
        if self._serving is None:
            self._bound.close()
            return
        self.stop()  # type: ignore[no-untyped-call]
        await asyncio.wait([self._serving], timeout=seconds)


def bind(host: str, port: int) -> socket.socket:
    """Return a bound socket that does not listen yet; port 0 takes a free one.

    Raises:
        ConfigError: The address does not belong to this machine, or the port is taken.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"host {host} is no address of this machine: {error}") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise ConfigError(
            f"port {port} of {host} cannot be used: {error.strerror}; give another (--port)"
        ) from error
    return bound


def most_connections(wanted: int) -> int:
    """Return how many connections fit the process's limit of open files, raising it if possible.

    Raises:
        ConfigError: The limit leaves no connection.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    most = soft - _OTHER_DESCRIPTORS
    if most < 1:
        raise ConfigError(
            f"the process may open {soft} files and needs {_OTHER_DESCRIPTORS} itself; "
            "raise the limit (ulimit -n)"
        )
    logger.warning(
        "the process may open %d files: at most %d connections, not %d", soft, most, wanted
    )
    return most
