"""A server from its engine to its socket: start, warm, answer, drain.

Needs a running event loop and nothing of the process: signals and exit codes are ``process``'s.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from uvicorn.config import Config

from trivet.evaluation.evaluator import Evaluator
from trivet.records import BackendError, ConfigError, FailedEvaluation, RagExample
from trivet.serve.http.app import build_app
from trivet.serve.http.connection_limits import ConnectionLimits
from trivet.serve.http.health import CANARY, Health
from trivet.serve.http.keys import KeyRing
from trivet.serve.http.listener import Listener, most_connections
from trivet.serve.http.metrics import Counters
from trivet.serve.http.settings import ServerSettings
from trivet.serve.scheduling.batcher import Batcher
from trivet.serve.scheduling.predictions import Judged, Overloaded

if TYPE_CHECKING:
    from trivet.serve.http.telemetry import Telemetry

logger = logging.getLogger(__name__)

# For answers that nobody reads and bodies that do not end, once all verdicts are given.
_GOODBYE_SECONDS = 3.0
_CLOSE_SECONDS = 0.5
# The door is open while the engine gets warm: whoever comes in may have filled the queue.
_AGAIN_SECONDS = 0.05
# Of the status that only connections are refused with; the app's own are counted in any case.
_REASONS = {503: "connections"}


class RunningServer:
    """One evaluator behind one socket.

    Attributes:
        batcher: What judges.
        health: What the probes ask.
        app: What answers.
        url: Where it is reached, once it has started.
        closed: Whether no thread of it is left, once it has stopped.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        settings: ServerSettings,
        keys: KeyRing | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        """Put the parts together; nothing runs yet.

        Args:
            evaluator: Loaded, its self-test passed.
            settings: The limits.
            keys: Who may ask; ``None`` lets everybody.
            telemetry: Who is told of every verdict, if anyone.
        """
        self._settings = settings
        counters = Counters()
        self.health = Health(
            canary_seconds=settings.canary_seconds,
            hung_seconds=settings.hung_seconds,
            watch=counters,
        )
        self.batcher = Batcher(
            evaluator,
            most_requests=settings.max_requests,
            most_windows=settings.max_queued_windows,
            wait_ms=settings.wait_ms,
            watch=self.health,
        )
        self.app: Starlette = build_app(
            evaluator, self.batcher, self.health, counters, settings, keys, telemetry
        )
        self._counters = counters
        self._window = evaluator.bundle.info.window.size
        self._workers = evaluator.workers
        self._draining = False
        self._listener: Listener | None = None
        self._watching: asyncio.Task[None] | None = None
        self.url = ""
        self.closed = False

    async def start(self, listening: socket.socket) -> None:
        """Accept connections, and be ready once the engine has answered.

        Args:
            listening: Bound, see ``bind``; closed in the end.

        Raises:
            ConfigError: The certificate or its key cannot be read, or no descriptors are left.
            BackendError: The engine cannot judge the stored examples.
        """
        settings = self._settings
        scheme = "https" if settings.tls_cert else "http"
        host, port = listening.getsockname()[:2]
        self.url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
        self._listener = Listener(
            listening,
            _configure(self.app, settings),
            ConnectionLimits.of(settings),
            most_connections(settings.max_connections),
            draining=lambda: self._draining,
            refused=self._note_refusal,
        )
        self._listener.start()
        await self.batcher.start()
        await self._warm()
        self.health.warmed(self.batcher)
        self._watching = asyncio.create_task(self.health.watch())

    async def stop(self) -> bool:
        """Refuse new work, finish what was accepted, and close; the door stays open meanwhile.

        Returns:
            Whether all that was accepted was answered within the grace.
        """
        deadline = asyncio.get_running_loop().time() + self._settings.grace_seconds
        self._draining = True
        self.health.drain()
        if self._watching is not None:
            self._watching.cancel()
        await self.health.close()
        if self._listener is not None:
            self._listener.end_soon()
        finished = await self.batcher.drain(self._settings.grace_seconds)
        if self._listener is not None:
            left = deadline - asyncio.get_running_loop().time()
            await self._listener.close(min(_GOODBYE_SECONDS, max(_CLOSE_SECONDS, left)))
        self.closed = await _within(_CLOSE_SECONDS, self.batcher.close())
        return finished

    def _note_refusal(self, route: str, status: int) -> None:
        """Count what was refused before the app saw it."""
        self._counters.answered(route, status)
        if status in _REASONS:
            self._counters.rejected(_REASONS[status])

    async def _warm(self) -> None:
        """Judge one example for each of a few lengths of windows."""
        stored = warm_up_examples(self._window)
        # One by one, and then as many together as the engine has workers.
        for examples in (*([each] for each in stored), [stored[-1]] * self._workers):
            for result in (await self._judge_as_soon_as_may_be(examples)).results:
                if isinstance(result, FailedEvaluation):
                    raise BackendError(
                        f"the engine cannot judge a stored example ({result.code}): "
                        f"{result.message}"
                    )

    async def _judge_as_soon_as_may_be(self, examples: Sequence[RagExample]) -> Judged:
        """Judge examples, though work that came meanwhile may have filled the queue."""
        while True:
            try:
                return await self.batcher.judge(examples)
            except Overloaded:
                await asyncio.sleep(_AGAIN_SECONDS)


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that has an address and does not listen yet.

    Args:
        host: An address or a name.
        port: 0 takes a free one.

    Raises:
        ConfigError: The address is not this machine's, or the port is taken.
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


def warm_up_examples(window: int) -> list[RagExample]:
    """Return the canary and examples of longer windows, the last with a full one.

    Args:
        window: Positions of a window.
    """
    word = "river "
    lengths = [window // 4, window // 2, window]
    return [
        CANARY,
        *(RagExample(CANARY.question, (word * length,), CANARY.response) for length in lengths),
    ]


def _configure(app: Starlette, settings: ServerSettings) -> Config:
    """Return what uvicorn's protocol reads."""
    config = Config(
        app,
        http="httptools",
        ws="none",
        loop="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
    )
    config.timeout_keep_alive = settings.idle_timeout_seconds  # type: ignore[assignment]
    try:
        config.load()
    except OSError as error:  # ssl.SSLError is one
        raise ConfigError(
            f"TLS cannot be set up with {settings.tls_cert} and {settings.tls_key}: {error}"
        ) from error
    return config


async def _within(seconds: float, work: Coroutine[Any, Any, None]) -> bool:
    try:
        await asyncio.wait_for(work, seconds)
    except TimeoutError:
        return False
    return True
