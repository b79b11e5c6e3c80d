"""A server on a real socket, in front of an app that records its requests."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

from starlette.types import Receive, Scope, Send

from trivet.serve.http.health import Health
from trivet.serve.http.http_server import HttpServer, bind
from trivet.serve.http.prometheus_metrics import Metrics
from trivet.serve.http.request_middleware import RequestMiddleware
from trivet.serve.http.server_settings import ServerSettings

# Longest time of a test; nothing here takes long.
PATIENCE = 20.0
GET = b"GET /first HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /first HTTP/1.1\r\nHost: a\r\n"


class Echo:
    """An app that reads the body and answers ``ok``; ``early`` answers 413 before reading."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, bytes]] = []  # those whose body ended
        self.scopes: list[Scope] = []
        self.gone: list[str] = []  # paths of those whose client hung up while they were held
        self.early = False
        self.hold: asyncio.Event | None = None
        self.answer = b"ok"
        self.health = Health()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        body = b""
        while not self.early:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            if not message.get("more_body"):
                self.requests.append((scope["path"], body))
                break
        if self.hold is not None:
            holding = asyncio.ensure_future(self.hold.wait())
            leaving = asyncio.ensure_future(receive())
            await asyncio.wait([holding, leaving], return_when=asyncio.FIRST_COMPLETED)
            if not holding.done():
                self.gone.append(scope["path"])
            holding.cancel()
            leaving.cancel()
        headers = [(b"content-length", str(len(self.answer)).encode())]
        status = 413 if self.early else 200
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": self.answer})


async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection that sends small parts at once."""
    return await asyncio.open_connection("127.0.0.1", port, proto=socket.IPPROTO_TCP)


async def exchange(port: int, *parts: bytes) -> bytes:
    """Send parts on a new connection and return what comes until the server closes it."""
    reader, writer = await connect(port)
    with contextlib.suppress(ConnectionError):
        for part in parts:
            writer.write(part)
            await writer.drain()
    return await rest(reader, writer)


async def rest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Return what comes until the server closes."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(65_536):
            received += piece
    writer.close()
    return received


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Return one answer's status and body; the connection stays open."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return status_of(head), await reader.readexactly(length)


@contextlib.asynccontextmanager
async def running(*, max_body_chunks: int = 50, **settings: Any) -> AsyncIterator[tuple[int, Echo]]:
    """Run a server in front of an ``Echo``, for a limited time; yield its port and the app."""
    echo = Echo()
    chosen = ServerSettings(port=0, **{"max_body_bytes": 10_000, **settings})
    parts: dict[str, Any] = {"health": echo.health, "metrics": Metrics(), "keys": None}
    guarded = RequestMiddleware(echo, **parts, settings=chosen, max_body_chunks=max_body_chunks)
    bound = bind("127.0.0.1", 0)
    port = bound.getsockname()[1]
    server = HttpServer(guarded, bound, chosen)
    server.start()
    try:
        async with asyncio.timeout(PATIENCE):
            yield port, echo
    finally:
        await server.close(0.2)


def status_of(received: bytes) -> int:
    return int(received.split(b" ", 2)[1])


def error_of(received: bytes) -> dict[str, str]:
    fields: dict[str, str] = json.loads(received.partition(b"\r\n\r\n")[2])
    return fields
