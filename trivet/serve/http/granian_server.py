"""The HTTP protocol: granian's embedded server on a socket that is bound here."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import resource
import socket

from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.net import SocketHolder  # type: ignore[attr-defined]
from granian.server.embed import Server
from starlette.types import ASGIApp

from trivet.errors import ConfigError
from trivet.serve.http.settings import ServerSettings

logger = logging.getLogger(__name__)

_HEADER_BYTES = 32_768  # of one request; granian also allows at most 100 header lines
_OTHER_DESCRIPTORS = 64  # files that are not connections: bundle, logs, keys, libraries


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

    async def close(self, seconds: float) -> bool:
        """Stop accepting, wait for connections in use, and return whether all are closed."""
        if self._serving is None:
            self._bound.close()
            return True
        self.stop()  # type: ignore[no-untyped-call]
        await asyncio.wait([self._serving], timeout=seconds)
        return self._serving.done()


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
