"""A listener on a real socket, in front of an app that says what it was asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.types import Receive, Scope, Send
from uvicorn.config import Config

from trivet.serve.http.connection_limits import ConnectionLimits
from trivet.serve.http.listener import Listener

LIMITS = ConnectionLimits(
    header_seconds=60.0,
    body_seconds=60.0,
    header_bytes=2048,
    headers=20,
    body_bytes=10_000,
    body_chunks=50,
)
# Against hanging; nothing here takes long.
PATIENCE = 20.0
GET = b"GET /first HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /first HTTP/1.1\r\nHost: a\r\n"


class Echo:
    """An app that reads the body and answers with what it was asked.

    Attributes:
        asked: The path and body of every request whose body ended.
        gone: Paths of the requests whose client was gone.
        early: Whether it answers 413 before it reads.
        hold: Where set, it waits for it before it answers.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes]] = []
        self.gone: list[str] = []
        self.scopes: list[Scope] = []
        self.early = False
        self.hold: asyncio.Event | None = None
        self.answer = b"ok"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        body = b""
        while not self.early:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.gone.append(scope["path"])
                return
            body += message.get("body", b"")
            if not message.get("more_body"):
                self.asked.append((scope["path"], body))
                break
        if self.hold is not None:
            await self.hold.wait()
        length = str(len(self.answer)).encode()
        status = 413 if self.early else 200
        headers = [(b"content-length", length)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": self.answer})


class Running:
    """A listener in front of an ``Echo``.

    Attributes:
        refused: The statuses that were answered for the app.
    """

    def __init__(self, listener: Listener, port: int, refused: list[int]) -> None:
        self.listener = listener
        self.port = port
        self.refused = refused

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def say(self, *parts: bytes) -> bytes:
        """Send parts on one connection and return all that comes until it is closed."""
        reader, writer = await self.connect()
        with contextlib.suppress(ConnectionError):
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)
        return await rest(reader, writer)


async def rest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Return what comes until the server closes."""
    got = b""
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(65_536):
            got += piece
    writer.close()
    return got


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Return one answer's status and body; the connection stays open."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return int(head.split(b" ", 2)[1]), await reader.readexactly(length)


@contextlib.asynccontextmanager
async def running(
    app: Echo,
    limits: ConnectionLimits = LIMITS,
    *,
    idle_seconds: float = 60.0,
    most: int = 50,
    draining: Callable[[], bool] = lambda: False,
) -> AsyncIterator[Running]:
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    config = Config(app, ws="none", lifespan="off", interface="asgi3", log_config=None)
    config.proxy_headers = False
    config.timeout_keep_alive = idle_seconds  # type: ignore[assignment]
    refused: list[int] = []
    listener = Listener(
        bound,
        config,
        limits,
        most,
        draining=draining,
        refused=lambda route, status: refused.append(int(status)),
    )
    listener.start()
    try:
        yield Running(listener, bound.getsockname()[1], refused)
    finally:
        await listener.close(0.0)


def on_a_server(
    scenario: Callable[[Running, Echo], Awaitable[None]],
    app: Echo | None = None,
    limits: ConnectionLimits = LIMITS,
    **settings: Any,
) -> None:
    """Run a scenario; nothing of it may hang."""

    async def whole() -> None:
        echo = app or Echo()
        async with asyncio.timeout(PATIENCE), running(echo, limits, **settings) as server:
            await scenario(server, echo)

    asyncio.run(whole())


async def until(condition: Callable[[], object]) -> None:
    """Wait for something to become true."""
    while not condition():
        await asyncio.sleep(0.005)


def status_of(said: bytes) -> int:
    return int(said.split(b" ", 2)[1])


def error_of(said: bytes) -> dict[str, str]:
    fields: dict[str, str] = json.loads(said.partition(b"\r\n\r\n")[2])
    return fields
