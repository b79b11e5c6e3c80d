"""HTTP/1.1 on a socket: uvicorn with httptools, and limits of connections, headers and their time.

A request that is malformed, or whose headers are too long, is answered without a body, and its
connection is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import logging
import math
import resource
import socket
import ssl
from collections.abc import Iterator
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from trivet.errors import ConfigError
from trivet.serve.http.server_settings import ServerSettings

logger = logging.getLogger(__name__)

_MAX_HEADER_BYTES, _MAX_HEADER_LINES = 32_768, 100
_OTHER_DESCRIPTORS = 64  # files that are not connections: bundle, logs, keys, libraries
_PIECE_BYTES = 4096  # what is parsed between two checks
_ACCEPT_AGAIN_SECONDS = 0.1
CHUNKS = "chunks"
"""Key of a request's state: the number of chunks of its body so far."""


class LimitedProtocol(HttpToolsProtocol):
    """A connection whose headers are limited in time, bytes and lines.

    The time for headers begins with the connection or the end of an answer. Trailers count as
    headers and are dropped.
    """

    def __init__(self, *, header_seconds: float, ended: asyncio.Future[None], **uvicorns: Any):
        """Take the parts from uvicorn; ``ended`` is done when the connection is over."""
        super().__init__(**uvicorns)
        self._header_seconds = header_seconds
        self._ended = ended
        self._timer: asyncio.TimerHandle | None = None
        self._in_headers = False
        self._header_bytes = self._header_lines = 0
        self._unfinished_bytes = 0  # since the parser last had something complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for headers."""
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection."""
        self._stop_timer()
        super().connection_lost(exc)
        if not self._ended.done():
            self._ended.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Parse bytes, in pieces far below the limits."""
        for start in range(0, len(data), _PIECE_BYTES):
            piece = data[start : start + _PIECE_BYTES]
            self._unfinished_bytes += len(piece)
            super().data_received(piece)
            if self._unfinished_bytes > _MAX_HEADER_BYTES:
                self._refuse_length()
            if self.transport.is_closing():
                return

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._in_headers = True
        self._header_bytes = self._header_lines = self._unfinished_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Take a part of the path."""
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._header_lines += 1
        self._count(len(name) + len(value))
        if self._in_headers:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Hand the request to the app."""
        self._in_headers = False
        self._unfinished_bytes = 0
        self._stop_timer()
        if not self.transport.is_closing():
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._unfinished_bytes = 0
        super().on_body(body)

    def on_chunk_header(self) -> None:
        """Count a chunk of the body."""
        self.scope["state"][CHUNKS] += 1

    def on_response_complete(self) -> None:
        """Wait for the next request's headers, unless it is here already."""
        is_last = not self.pipeline
        super().on_response_complete()
        if is_last:
            self._start_timer()

    def _count(self, size: int) -> None:
        self._unfinished_bytes = 0
        self._header_bytes += size
        if self._header_bytes > _MAX_HEADER_BYTES or self._header_lines > _MAX_HEADER_LINES:
            self._refuse_length()

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser cannot read."""
        self._refuse(b"400 Bad Request")

    def _refuse_length(self) -> None:
        """Refuse headers that are too long, or what is too long between the parts of a body."""
        too_long = b"431 Request Header Fields Too Large"
        self._refuse(too_long if self._in_headers else b"400 Bad Request")

    def _refuse(self, status: bytes) -> None:
        if self.transport.is_closing():
            return
        headers = [
            *self.server_state.default_headers,
            (b"content-length", b"0"),
            (b"connection", b"close"),
        ]
        lines = [b"HTTP/1.1 " + status, *(b"%b: %b" % header for header in headers)]
        self.transport.write(b"\r\n".join([*lines, b"", b""]))
        self.transport.close()

    def _start_timer(self) -> None:
        self._stop_timer()
        if not self.transport.is_closing():
            self._timer = self.loop.call_later(self._header_seconds, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Uvicorn(uvicorn.Server):
    """uvicorn without its handlers of signals: the process has its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals as they are."""
        yield


class HttpServer:
    """One listening socket, reached at ``url``, and its connections."""

    def __init__(self, app: ASGIApp, bound: socket.socket, settings: ServerSettings) -> None:
        """Listen on a socket from ``bind``; the app must turn its exceptions into responses.

        Raises:
            ConfigError: The certificate or its key cannot be read, or the limit of open files is
                too low.
        """
        most = allowed_connections(settings.max_connections)
        host, port = bound.getsockname()[:2]
        self.url = dataclasses.replace(settings, host=host, port=port).url
        # It logs either attacks or lines that the middleware has logged.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        self._config = uvicorn.Config(
            app,
            http=HttpToolsProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=math.ceil(settings.header_timeout_seconds),
            ssl_certfile=settings.tls_cert,
            ssl_keyfile=settings.tls_key,
        )
        try:
            self._config.load()
        except OSError as error:  # includes ssl.SSLError
            raise ConfigError(
                f"TLS cannot be set up with {settings.tls_cert} and {settings.tls_key}: {error}"
            ) from error
        # Accepted connections inherit the option, which drops clients that do not read.
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            milliseconds = int(1000 * settings.body_timeout_seconds)
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        # From here on the kernel accepts connections; they wait until the loop takes them.
        bound.listen(max(128, most))
        bound.setblocking(False)
        self._bound = bound
        self._header_seconds = settings.header_timeout_seconds
        self._uvicorn = _Uvicorn(self._config)
        self._free = asyncio.Semaphore(most)
        self._tasks: set[asyncio.Task[None]] = set()
        self._serving: asyncio.Task[None] | None = None
        self._accepting: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Accept connections, in the running event loop."""
        self._serving = asyncio.create_task(self._uvicorn.serve(sockets=[]))
        self._accepting = asyncio.create_task(self._accept())

    async def close(self, seconds: float) -> None:
        """Stop accepting, and wait some seconds for connections in use."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
        self._bound.close()
        if self._serving is not None:
            self._config.timeout_graceful_shutdown = cast(int, seconds)
            self._uvicorn.should_exit = True
            await self._serving
        for connection in list(self._uvicorn.server_state.connections):
            cast(LimitedProtocol, connection).transport.abort()
        for task in self._tasks:
            task.cancel()

    async def _accept(self) -> None:
        """Accept connections while there are places; others wait in the kernel."""
        loop = asyncio.get_running_loop()
        while True:
            await self._free.acquire()
            try:
                connection, _ = await loop.sock_accept(self._bound)
            except OSError:  # the client is gone, or files are short
                self._free.release()
                await asyncio.sleep(_ACCEPT_AGAIN_SECONDS)
                continue
            except asyncio.CancelledError:
                self._free.release()
                raise
            task = asyncio.create_task(self._serve(connection))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: socket.socket) -> None:
        """Serve one connection until its end."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        make = functools.partial(
            LimitedProtocol,
            header_seconds=self._header_seconds,
            ended=ended,
            config=self._config,
            server_state=self._uvicorn.server_state,
            app_state={CHUNKS: 0},
        )
        limit = None if self._config.ssl is None else self._header_seconds
        try:
            await loop.connect_accepted_socket(
                make, connection, ssl=self._config.ssl, ssl_handshake_timeout=limit
            )
            await ended
        except (OSError, ssl.SSLError):  # no handshake
            connection.close()
        finally:
            self._free.release()


def bind(host: str, port: int) -> socket.socket:
    """Return a bound socket that does not listen yet; port 0 takes a free one.

    Raises:
        ConfigError: The address does not belong to this machine, or the port is taken.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = addresses[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"host {host} is not an address of this machine: {error}") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise ConfigError(
            f"port {port} of {host} cannot be used: {error.strerror}; give another (--port)"
        ) from error
    return bound


def allowed_connections(wanted: int) -> int:
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
