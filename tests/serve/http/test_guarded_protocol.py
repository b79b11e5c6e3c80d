"""The protocol on real connections: time-outs, limits, and how connections end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from dataclasses import replace

import pytest
from starlette.types import Receive, Scope, Send

from tests.serve.http.connections import (
    GET,
    LIMITS,
    POST,
    Echo,
    Running,
    answer,
    error_of,
    on_a_server,
    rest,
    status_of,
    until,
)

# Time -----------------------------------------------------------------------------------------


def test_headers_that_do_not_end_are_answered_408_and_closed() -> None:
    async def scenario(server: Running, echo: Echo) -> None:
        slow = [server.say(GET[:end]) for end in (1, 20, len(GET) - 1)]
        for said in await asyncio.gather(*slow):
            assert status_of(said) == 408
            assert b"connection: close" in said
            error = error_of(said)
            assert error["error_type"] == "timeout_reading"
            assert error["error"] == "the request's headers took longer than 0.2 s"
            assert error["request_id"].encode() in said.partition(b"\r\n\r\n")[0]
        assert server.refused == [408] * 3
        assert not echo.scopes

    on_a_server(scenario, limits=replace(LIMITS, header_seconds=0.2))


def test_a_trickle_of_header_bytes_buys_no_time() -> None:
    async def scenario(server: Running, echo: Echo) -> None:
        reader, writer = await server.connect()

        async def trickle() -> None:
            for byte in GET * 1000:
                writer.write(bytes([byte]).replace(b"\n", b"x"))
                await asyncio.sleep(0.01)

        trickling = asyncio.create_task(trickle())
        said = await rest(reader, writer)
        trickling.cancel()
        assert status_of(said) == 408

    on_a_server(scenario, limits=replace(LIMITS, header_seconds=0.2))


def test_who_says_nothing_is_closed_without_an_answer() -> None:
    async def scenario(server: Running, echo: Echo) -> None:
        silent = [server.say(*parts) for parts in ((), (), (b"\r\n", b"\r\n"))]
        assert await asyncio.gather(*silent) == [b"", b"", b""]
        assert server.refused == []

    on_a_server(scenario, limits=replace(LIMITS, header_seconds=0.2))


def test_a_body_that_stalls_or_trickles_is_answered_408_and_the_app_told() -> None:
    async def scenario(server: Running, echo: Echo) -> None:
        head = POST + b"Content-Length: 5000\r\n\r\n"
        assert status_of(await server.say(head + b"x")) == 408
        reader, writer = await server.connect()
        writer.write(head)

        async def trickle() -> None:
            for _ in range(5000):
                writer.write(b"x")
                await asyncio.sleep(0.01)

        trickling = asyncio.create_task(trickle())
        said = await rest(reader, writer)
        trickling.cancel()
        assert error_of(said)["error"] == "the request's body took longer than 0.2 s"
        await until(lambda: len(echo.gone) == 2)
        assert not echo.asked

    on_a_server(scenario, limits=replace(LIMITS, body_seconds=0.2))


def test_the_next_request_has_the_time_of_headers_and_not_more() -> None:
    async def scenario(server: Running, echo: Echo) -> None:
        reader, writer = await server.connect()
        writer.write(GET)
        assert await answer(reader) == (200, b"ok")
        writer.write(GET[:10])
        assert status_of(await rest(reader, writer)) == 408

    on_a_server(scenario, limits=replace(LIMITS, header_seconds=0.2))


def test_an_idle_connection_is_closed_silently() -> None:
    async def scenario(server: Running, echo: Echo) -> None:
        reader, writer = await server.connect()
        writer.write(GET)
        assert await answer(reader) == (200, b"ok")
        assert await rest(reader, writer) == b""
        await until(lambda: server.listener.connections == 0)

    on_a_server(scenario, idle_seconds=0.2)


def test_empty_lines_keep_no_connection_open() -> None:
    async def scenario(server: Running, echo: Echo) -> None:
        reader, writer = await server.connect()
        writer.write(GET)
        assert await answer(reader) == (200, b"ok")
        with contextlib.suppress(ConnectionError):
            while not reader.at_eof():
                writer.write(b"\r\n")
                await writer.drain()
                await asyncio.sleep(0.02)
        assert await rest(reader, writer) == b""

    on_a_server(scenario, limits=replace(LIMITS, header_seconds=0.2), idle_seconds=0.2)


def test_the_time_an_app_takes_is_not_the_clients() -> None:
    async def scenario(server: Running, echo: Echo) -> None:
        echo.hold = asyncio.Event()
        reader, writer = await server.connect()
        writer.write(POST + b"Content-Length: 2\r\n\r\nab" + GET[:10])  # and the next has begun
        await until(lambda: echo.asked)
        await asyncio.sleep(0.3)  # longer than any time-out
        echo.hold.set()
        assert await answer(reader) == (200, b"ok")
        assert status_of(await rest(reader, writer)) == 408

    on_a_server(scenario, limits=replace(LIMITS, header_seconds=0.1, body_seconds=0.1))


def test_an_answer_that_nobody_reads_is_dropped_in_the_end() -> None:
    async def scenario(server: Running, echo: Echo) -> None:
        echo.answer = b"x" * 20_000_000
        unread = socket.socket()
        unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with unread:
            unread.connect(("127.0.0.1", server.port))
            unread.sendall(GET)
            await until(lambda: server.listener.connections == 1)
            await until(lambda: server.listener.connections == 0)

    on_a_server(scenario, limits=replace(LIMITS, body_seconds=0.2))


# Size -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parts",
    [
        (GET[:-2] + b"X: " + b"a" * 5000 + b"\r\n\r\n",),
        (GET[:-2] + b"X: " + b"a" * 1500, b"a" * 1500, b"a" * 4000),
        (b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",),
        (GET[:-2] + b"X: a\r\n" * 20 + b"\r\n",),
        (GET[:-2] + b"X: a\r\n" * 2000 + b"\r\n",),
        (b"\r\n" * 3000,),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: a\r\n" * 30 + b"\r\n",),
    ],
    ids=["a value", "in pieces", "a path", "lines", "many lines", "empty lines", "trailers"],
)
def test_headers_beyond_the_limits_are_answered_431_and_closed(parts: tuple[bytes, ...]) -> None:
    async def scenario(server: Running, echo: Echo) -> None:
        said = await server.say(*parts)
        assert status_of(said) == 431
        assert error_of(said)["error"] == "the headers have more than 2048 bytes or 20 lines"
        assert not echo.asked

    on_a_server(scenario)


def test_headers_just_within_the_limits_pass() -> None:
    async def scenario(server: Running, echo: Echo) -> None:
        reader, writer = await server.connect()
        writer.write(GET[:-2] + b"X: a\r\n" * 19 + b"\r\n")
        assert await answer(reader) == (200, b"ok")
        writer.write(GET[:-2] + b"X: " + b"a" * 2000 + b"\r\n\r\n")
        assert await answer(reader) == (200, b"ok")
        writer.close()

    on_a_server(scenario)


def test_a_flood_of_chunks_is_refused_though_the_body_is_small() -> None:
    async def scenario(server: Running, echo: Echo) -> None:
        head = POST + b"Transfer-Encoding: chunked\r\n\r\n"
        said = await server.say(head, b"1\r\nx\r\n" * 51 + b"0\r\n\r\n")
        assert status_of(said) == 413
        assert "more than 50 chunks" in error_of(said)["error"]
        assert not echo.asked
        reader, writer = await server.connect()
        writer.write(head + b"1\r\nx\r\n" * 49 + b"0\r\n\r\n")
        assert await answer(reader) == (200, b"ok")
        assert echo.asked == [("/first", b"x" * 49)]
        writer.close()

    on_a_server(scenario)


@pytest.mark.parametrize("padding", [b"1;" + b"a" * 6000, b"0\r\nX: " + b"a" * 6000])
def test_a_chunk_that_is_all_wrapping_is_refused(padding: bytes) -> None:
    async def scenario(server: Running, echo: Echo) -> None:
        said = await server.say(POST + b"Transfer-Encoding: chunked\r\n\r\n", padding)
        assert status_of(said) == 413
        assert not echo.asked

    on_a_server(scenario)


def test_what_was_answered_before_its_body_ended_is_read_to_the_end() -> None:
    async def scenario(server: Running, echo: Echo) -> None:
        echo.early = True
        reader, writer = await server.connect()
        writer.write(POST + b"Content-Length: 15000\r\n\r\n")
        assert (await answer(reader))[0] == 413
        writer.write(b"x" * 15_000)
        echo.early = False
        writer.write(GET)  # the connection serves on
        assert await answer(reader) == (200, b"ok")
        writer.close()

    on_a_server(scenario)


def test_what_was_answered_before_its_body_ended_is_not_read_for_ever() -> None:
    async def scenario(server: Running, echo: Echo) -> None:
        echo.early = True
        for body in (b"", b"x" * 1_000_000):
            reader, writer = await server.connect()
            writer.write(POST + b"Content-Length: 9999999\r\n\r\n")
            assert (await answer(reader))[0] == 413
            writer.write(body)
            assert await rest(reader, writer) == b""

    on_a_server(scenario, limits=replace(LIMITS, body_seconds=0.2))


@pytest.mark.parametrize("behind", [b"", b"\r\n", b"\r\n" * 700])
def test_after_a_body_that_nobody_read_an_idle_connection_is_closed_too(behind: bytes) -> None:
    async def scenario(server: Running, echo: Echo) -> None:
        echo.early = True
        reader, writer = await server.connect()
        writer.write(POST + b"Content-Length: 4096\r\n\r\n")
        assert (await answer(reader))[0] == 413
        writer.write(b"x" * 4096 + behind)
        assert await rest(reader, writer) == b""
        await until(lambda: server.listener.connections == 0)

    on_a_server(scenario, limits=replace(LIMITS, header_seconds=0.2), idle_seconds=0.2)


def test_the_request_behind_a_body_that_nobody_read_may_take_its_time() -> None:
    async def scenario(server: Running, echo: Echo) -> None:
        echo.early = True
        reader, writer = await server.connect()
        writer.write(POST + b"Content-Length: 500\r\n\r\n")
        assert (await answer(reader))[0] == 413
        echo.early, echo.hold = False, asyncio.Event()
        writer.write(b"x" * 500 + GET)
        await until(lambda: echo.asked)
        await asyncio.sleep(0.3)  # longer than an idle connection lives
        echo.hold.set()
        assert await answer(reader) == (200, b"ok")
        writer.close()

    on_a_server(scenario, idle_seconds=0.1)


def test_more_requests_at_once_than_anyone_sends_are_refused() -> None:
    async def scenario(server: Running, echo: Echo) -> None:
        reader, writer = await server.connect()
        writer.write(GET * 10)
        assert [await answer(reader) for _ in range(10)] == [(200, b"ok")] * 10
        writer.close()
        said = await server.say(GET * 100)
        assert error_of(said)["error"] == "more than 16 requests came before the first was answered"

    on_a_server(scenario)


# Hanging up -----------------------------------------------------------------------------------


def test_who_is_still_sending_can_read_why_it_was_refused() -> None:
    async def scenario(server: Running, echo: Echo) -> None:
        flood = [b"X: " + b"a" * 100_000] * 20
        for said in await asyncio.gather(*(server.say(GET[:-2], *flood) for _ in range(10))):
            assert status_of(said) == 431

    on_a_server(scenario)


def test_the_app_hears_of_a_client_that_goes_although_it_has_asked_more() -> None:
    class Waiting(Echo):
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            self.scopes.append(scope)
            while (await receive())["type"] != "http.disconnect":
                continue
            self.gone.append(scope["path"])

    async def scenario(server: Running, echo: Echo) -> None:
        _, writer = await server.connect()
        writer.write(GET + GET.replace(b"first", b"second"))
        await until(lambda: echo.scopes)
        writer.close()
        await until(lambda: echo.gone)
        assert echo.gone == ["/first"]
        assert len(echo.scopes) == 1

    on_a_server(scenario, Waiting())


# Draining -------------------------------------------------------------------------------------


def test_while_draining_every_answer_is_the_last_of_its_connection() -> None:
    draining = [False]

    async def scenario(server: Running, echo: Echo) -> None:
        echo.hold = asyncio.Event()
        idle = await server.connect()
        busy = await server.connect()
        busy[1].write(GET)
        await until(lambda: echo.asked)
        draining[0] = True
        server.listener.end_soon()
        echo.hold.set()
        assert b"connection: close" in await rest(*busy)
        idle[1].write(GET)
        assert b"connection: close" in await rest(*idle)
        assert status_of(await server.say(GET)) == 200  # the door is still open

    on_a_server(scenario, draining=lambda: draining[0])
