"""Accepts connections, at most so many at a time, each on a guarded protocol.

What uvicorn's own server does, but for three things: connections are counted before TLS is spoken
on them, a handshake has a time-out, and the door stays open while the work in flight is finished.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import resource
import socket
import uuid
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus

from uvicorn.config import Config
from uvicorn.server import ServerState

from trivet.records import ConfigError
from trivet.serve.http.connection_limits import ConnectionLimits, Refusal
from trivet.serve.http.guarded_protocol import CONNECTION, GuardedProtocol, Refused

logger = logging.getLogger(__name__)

# Accepted in one go, before others have their turn.
_AT_ONCE = 64
_NO_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE_SECONDS = 0.5
_TLS_GOODBYE_SECONDS = 2.0
# What the process opens beside connections: the bundle, logs, the keys, libraries.
_OTHER_DESCRIPTORS = 64
_FULL = Refusal(
    HTTPStatus.SERVICE_UNAVAILABLE, "overloaded", "too many connections; come back in a second"
)


class Listener:
    """One listening socket and its connections.

    Attributes:
        connections: How many are open.
    """

    def __init__(
        self,
        listening: socket.socket,
        config: Config,
        limits: ConnectionLimits,
        most: int,
        *,
        draining: Callable[[], bool],
        refused: Refused,
    ) -> None:
        """Take over a socket; nothing is accepted before ``start``.

        Args:
            listening: Bound; is closed in the end.
            config: uvicorn's, with the app.
            limits: Of each connection.
            most: Connections that are open at a time.
            draining: Whether connections end with the answer under way.
            refused: Hears of what is refused here.
        """
        if not config.loaded:
            config.load()
        self._socket = listening
        self._config = config
        self._limits = limits
        self._most = most
        self._draining = draining
        self._refused = refused
        self._state = ServerState()
        self._protocols: set[GuardedProtocol] = set()
        self._greetings: set[asyncio.Task[None]] = set()
        self._clock: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._full = False

    @property
    def connections(self) -> int:
        """How many connections are open, those that still negotiate TLS included."""
        return len(self._protocols)

    def start(self) -> None:
        """Listen and accept."""
        self._socket.setblocking(False)
        self._socket.listen(min(self._most, socket.SOMAXCONN))
        self._clock = asyncio.create_task(self._keep_date())
        self._loop.add_reader(self._socket, self._accept)

    def end_soon(self) -> None:
        """Let every connection end with the answer under way; still accept."""
        for protocol in list(self._protocols):
            protocol.end_soon()

    async def close(self, seconds: float) -> bool:
        """Accept nothing more, close what is idle, and wait for what is not.

        Args:
            seconds: For how long; what is open then is dropped.

        Returns:
            Whether all was answered.
        """
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()
        for protocol in list(self._protocols):
            if protocol.transport is not None:
                protocol.shutdown()
        deadline = self._loop.time() + seconds
        while (self._protocols or self._state.tasks) and self._loop.time() < deadline:
            await asyncio.sleep(0.01)
        finished = not self._state.tasks
        for task in (*self._state.tasks, *self._greetings):
            task.cancel()
        for protocol in list(self._protocols):
            if protocol.transport is not None:
                protocol.transport.abort()
        if self._clock is not None:
            self._clock.cancel()
        await asyncio.sleep(0)
        return finished

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_RESOURCES:
                    raise
                logger.error("no connection can be accepted for a while: %s", error.strerror)
                self._loop.remove_reader(self._socket)
                self._loop.call_later(_PAUSE_SECONDS, self._accept_again)
                return
            accepted.setblocking(False)
            if len(self._protocols) >= self._most:
                self._turn_away(accepted)
                continue
            self._full = False
            greeting = asyncio.create_task(self._greet(accepted, self._make_protocol()))
            self._greetings.add(greeting)
            greeting.add_done_callback(self._greetings.discard)

    def _accept_again(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.add_reader(self._socket, self._accept)

    def _make_protocol(self) -> GuardedProtocol:
        protocol = GuardedProtocol(
            self._config,
            self._state,
            self._limits,
            draining=self._draining,
            refused=self._refused,
            closed=self._protocols.discard,
        )
        self._protocols.add(protocol)
        return protocol

    async def _greet(self, accepted: socket.socket, protocol: GuardedProtocol) -> None:
        """Hand a connection to its protocol, behind TLS where that is spoken."""
        times: dict[str, float] = {}
        if self._config.ssl is not None:
            times["ssl_handshake_timeout"] = self._limits.header_seconds
            times["ssl_shutdown_timeout"] = _TLS_GOODBYE_SECONDS
        try:
            await self._loop.connect_accepted_socket(
                lambda: protocol, accepted, ssl=self._config.ssl, **times
            )
        except (OSError, asyncio.CancelledError):  # TimeoutError and ssl.SSLError are OSErrors
            # A client that speaks no TLS, or none in time: anyone can do that.
            accepted.close()
            self._protocols.discard(protocol)

    def _turn_away(self, accepted: socket.socket) -> None:
        """Say in one breath that there is no room, and close."""
        if not self._full:
            logger.warning("all %d connections are in use; new ones are refused", self._most)
        self._full = True
        self._refused(CONNECTION, _FULL.status)
        with accepted, contextlib.suppress(OSError):
            if self._config.ssl is None:
                accepted.send(_FULL.to_bytes(uuid.uuid4().hex))
                accepted.shutdown(socket.SHUT_WR)
                accepted.recv(self._limits.header_bytes)  # what lies unread would reset it all

    async def _keep_date(self) -> None:
        """Give every answer the time of day."""
        while True:
            self._state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
            await asyncio.sleep(1)


def most_connections(wanted: int) -> int:
    """Return how many connections the process has descriptors for; ask for more where it may.

    Args:
        wanted: The setting.

    Raises:
        ConfigError: There is hardly any.
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
            f"the process may open {soft} files, of which {_OTHER_DESCRIPTORS} are for itself; "
            "raise the limit (ulimit -n)"
        )
    logger.warning(
        "the process may open %d files: at most %d connections, not %d", soft, most, wanted
    )
    return most
