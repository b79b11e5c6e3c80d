"""Connections of a real server: timeouts, limits, framing, and how they end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from pathlib import Path

import pytest

from tests.judges import until
from tests.serve.http.connections import (
    GET,
    POST,
    answer,
    connect,
    error_of,
    exchange,
    rest,
    running,
    status_of,
)

pytestmark = pytest.mark.anyio

CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"


async def trickle(writer: asyncio.StreamWriter, byte: bytes) -> None:
    """Send one byte after the other until the server closes."""
    with contextlib.suppress(ConnectionError):
        while True:
            writer.write(byte)
            await writer.drain()
            await asyncio.sleep(0.01)


# Time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("begun", [b"", b"G", b"\r\n\r\n", GET[:20], GET[:-1]])
@pytest.mark.parametrize("trickled", [b"", b"x", b"\r\n"])
async def test_headers_that_do_not_end_close_the_connection(begun: bytes, trickled: bytes) -> None:
    async with running(header_timeout_seconds=0.2) as (port, echo):
        reader, writer = await connect(port)
        writer.write(begun)
        sending = asyncio.create_task(trickle(writer, trickled))
        received = await rest(reader, writer)
        sending.cancel()
        assert received == b"" or status_of(received) == 400
        assert not echo.requests or trickled == b"\r\n"


@pytest.mark.parametrize("trickled", [b"", b"x"])
async def test_a_body_that_stalls_or_trickles_is_answered_408(trickled: bytes) -> None:
    async with running(body_timeout_seconds=0.2, max_body_chunks=5000) as (port, echo):
        reader, writer = await connect(port)
        writer.write(POST + b"Content-Length: 5000\r\n\r\n")
        sending = asyncio.create_task(trickle(writer, trickled))
        received = await rest(reader, writer)
        sending.cancel()
        assert status_of(received) == 408
        assert b"connection: close" in received
        error = error_of(received)
        assert error["error_type"] == "timeout_reading"
        assert error["error"] == "the request's body took longer than 0.2 s"
        assert error["request_id"].encode() in received.partition(b"\r\n\r\n")[0]
        assert not echo.requests


@pytest.mark.parametrize("begun", [b"", GET[:10]])
async def test_an_idle_connection_is_closed_silently(begun: bytes) -> None:
    async with running(header_timeout_seconds=0.2) as (port, _):
        reader, writer = await connect(port)
        writer.write(GET)
        assert await answer(reader) == (200, b"ok")
        writer.write(begun)
        assert await rest(reader, writer) == b""


async def test_the_time_of_the_app_does_not_count_as_the_clients() -> None:
    async with running(header_timeout_seconds=0.1, body_timeout_seconds=0.1) as (port, echo):
        echo.hold = asyncio.Event()
        reader, writer = await connect(port)
        writer.write(POST + b"Content-Length: 2\r\n\r\nab")
        await until(lambda: echo.requests)
        asyncio.get_running_loop().call_later(0.25, echo.hold.set)
        assert await answer(reader) == (200, b"ok")
        writer.close()


@pytest.mark.skipif(sys.platform != "linux", reason="needs TCP_USER_TIMEOUT")
async def test_a_client_that_does_not_read_its_answer_is_dropped() -> None:
    async with running(body_timeout_seconds=0.2) as (port, echo):
        echo.answer = b"x" * 20_000_000
        with socket.socket() as unread:
            unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            unread.connect(("127.0.0.1", port))
            unread.sendall(GET)
            await until(lambda: established(port) == 1)
            await until(lambda: established(port) == 0)


def established(port: int) -> int:
    """Return how many connections of a server the kernel knows."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


# Size -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parts",
    [
        (GET[:-2] + b"X: " + b"a" * 100_000 + b"\r\n\r\n",),
        (GET[:-2] + b"X: " + b"a" * 20_000, b"a" * 10_000, b"a" * 10_000),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",),
        (GET[:-2] + b"X: a\r\n" * 101 + b"\r\n",),
        (GET[:-2] + b"X: a\r\n" * 2000 + b"\r\n",),
        (GET[:-2], *([b"X: " + b"a" * 100_000] * 20)),
    ],
    ids=["a value", "in pieces", "a path", "lines", "many lines", "a flood"],
)
async def test_headers_beyond_the_limits_are_answered_431_without_a_body(
    parts: tuple[bytes, ...],
) -> None:
    async with running() as (port, echo):
        received = await exchange(port, *parts)
        assert received == b"" or status_of(received) == 431  # a flood may end in a reset
        assert received.endswith(b"\r\n\r\n") or len(parts) > 3
        assert not echo.scopes


@pytest.mark.parametrize(
    ("request_bytes", "phrase"),
    [
        (POST + b"Content-Length: 10001\r\n\r\n", "the body has 10001 bytes"),
        (CHUNKED + (b"2000\r\n" + b"x" * 8192 + b"\r\n") * 2, "the body has at least 16384"),
        (CHUNKED + b"1\r\nx\r\n" * 51 + END, "more than 50 chunks"),
    ],
    ids=["claim", "bytes", "chunks"],
)
async def test_a_large_body_is_refused(request_bytes: bytes, phrase: str) -> None:
    async with running() as (port, echo):
        received = await exchange(port, request_bytes)
        assert (status_of(received), error_of(received)["error_type"]) == (413, "too_large")
        assert phrase in error_of(received)["error"]
        assert b"connection: close" in received
        assert not echo.requests


@pytest.mark.parametrize("body", [b"", b"x" * 1_000_000])
async def test_a_body_that_was_answered_before_its_end_is_not_read(body: bytes) -> None:
    async with running() as (port, echo):
        echo.early = True
        reader, writer = await connect(port)
        writer.write(POST + b"Content-Length: 9999\r\n\r\n")
        assert (await answer(reader))[0] == 413
        writer.write(body)
        assert await rest(reader, writer) == b""


# Framing --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_bytes",
    [
        POST + b"Content-Length: 0\r\nContent-Length: 36\r\n\r\n",
        POST + b"Content-Length: 0, 36\r\n\r\n",
        POST + b"Content-Length: +0\r\n\r\n",
        POST + b"Content-Length: 0x0\r\n\r\n",
        POST + b"Content-Length: -1\r\n\r\n",
        POST + b"Content-Length: 99999999999999999999\r\n\r\n",
        POST + b"Content-Length : 0\r\n\r\n",
        POST + b"Content-Length\x0b: 0\r\n\r\n",
        POST + b"Transfer-Encoding: xchunked\r\n\r\n" + END,
        POST + b"Transfer-Encoding: identity\r\n\r\n" + END,
        POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + END,
        POST + b"Transfer-Encoding: chunked, identity\r\n\r\n" + END,
        POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n" + END,
        POST + b"Transfer-Encoding : chunked\r\n\r\n" + END,
        POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n" + END,
        POST + b"X: a\r\n Transfer-Encoding: chunked\r\n\r\n",
        POST + b"X: a\r\n\tb\r\nContent-Length: 0\r\n\r\n",
        POST + b"X: a\rb\r\n\r\n",
        POST + b"X: a\x00b\r\n\r\n",
        b"POST /first HTTP/1.1\r\n Host: a\r\n\r\n",
        b"POST /first HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + END,
        b"POST /first HTTP/2.0\r\nHost: a\r\n\r\n",
        b"GET /first\r\n\r\n",
        b"POST /first HTTP/1.1\r\n\r\n",
        POST + b"Host: b\r\n\r\n",
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + END,
        POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" + END,
        POST.replace(b"\r\n", b"\n") + b"\n",
        CHUNKED + b"0 \r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        CHUNKED + b"5\nhello\r\n" + END,
        CHUNKED + b"0x1\r\nh\r\n" + END,
        CHUNKED + b"1\r\nhello\r\n" + END,
        CHUNKED + b"fffffffffffffffff\r\nh\r\n" + END,
        CHUNKED + b"1;" + b"a" * 1_000_000,
        CHUNKED + b"0\r\nX: " + b"a" * 1_000_000,
        CHUNKED + b"0\r\n" + b"X: a\r\n" * 3000 + b"\r\n",
        POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\nabc",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
async def test_malformed_framing_is_answered_400_and_closed(request_bytes: bytes) -> None:
    async with running() as (port, echo):
        received = await exchange(port, request_bytes + SMUGGLED)
        assert status_of(received) == 400
        assert received.count(b"\r\ndate: ") == 1
        if not received.endswith(b"\r\n\r\n"):  # the parser's refusals have no body
            assert error_of(received)["error_type"] == "malformed"
        assert "/smuggled" not in [scope["path"] for scope in echo.scopes]
        assert ("/first", b"") not in echo.requests


@pytest.mark.parametrize(
    "request_bytes",
    [
        GET[:-2] + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        b"GET /first HTTP/1.0\r\n\r\n",
        POST + b"Transfer-Encoding: Chunked\r\n\r\n" + END,
        CHUNKED + b"1\r\nx\r\n0\r\nAuthorization: Bearer stolen\r\n\r\n",
        GET[:-2] + b"X: a\r\n" * 99 + b"\r\n",
        GET[:-2] + b"X: " + b"a" * 30_000 + b"\r\n\r\n",
        CHUNKED + b"1\r\nx\r\n" * 49 + END,
    ],
    ids=["upgrade", "HTTP/1.0", "case", "trailer", "99 headers", "long header", "49 chunks"],
)
async def test_unusual_requests_within_the_limits_are_answered(request_bytes: bytes) -> None:
    async with running() as (port, echo):
        reader, writer = await connect(port)
        writer.write(request_bytes)
        assert await answer(reader) == (200, b"ok")
        assert b"authorization" not in dict(echo.scopes[0]["headers"]), "a trailer is not a header"
        writer.close()


# Ends -----------------------------------------------------------------------------------------


async def test_the_app_learns_that_a_client_hung_up() -> None:
    async with running() as (port, echo):
        echo.hold = asyncio.Event()
        _, writer = await connect(port)
        writer.write(GET)
        await until(lambda: echo.requests)
        writer.close()
        await until(lambda: echo.gone)


async def test_while_draining_each_answer_ends_its_connection() -> None:
    async with running() as (port, echo):
        echo.hold = asyncio.Event()
        idle, busy = await connect(port), await connect(port)
        busy[1].write(GET)
        await until(lambda: echo.requests)
        echo.health.drain()
        echo.hold.set()
        assert b"connection: close" in await rest(*busy)
        idle[1].write(GET)
        assert b"connection: close" in await rest(*idle)
        assert status_of(await exchange(port, GET)) == 200  # new connections are accepted
