"""Requests whose end two readers could see in two places are refused, and the connection closed."""

from __future__ import annotations

import pytest

from tests.serve.http.connections import (
    GET,
    POST,
    Echo,
    Running,
    answer,
    error_of,
    on_a_server,
    status_of,
)
from trivet.serve.http.smuggling_guard import framing_fault

CHUNKS = b"0\r\n\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS,
        POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" + CHUNKS,
        POST + b"Content-Length: 0\r\nContent-Length: 36\r\n\r\n",
        POST + b"Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
        POST + b"Content-Length: 0, 36\r\n\r\n",
        POST + b"Content-Length: +0\r\n\r\n",
        POST + b"Content-Length: 0x0\r\n\r\n",
        POST + b"Content-Length: -1\r\n\r\n",
        POST + b"Content-Length: 99999999999999999999\r\n\r\n",
        POST + b"Content-Length : 0\r\n\r\n",
        POST + b"Content-Length\x0b: 0\r\n\r\n",
        POST + b"Transfer-Encoding: xchunked\r\n\r\n" + CHUNKS,
        POST + b"Transfer-Encoding: identity\r\n\r\n" + CHUNKS,
        POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + CHUNKS,
        POST + b"Transfer-Encoding: chunked, identity\r\n\r\n" + CHUNKS,
        POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n" + CHUNKS,
        POST + b"Transfer-Encoding : chunked\r\n\r\n" + CHUNKS,
        POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n" + CHUNKS,
        POST + b"X: a\r\n Transfer-Encoding: chunked\r\n\r\n",
        POST + b"X: a\r\n\tb\r\nContent-Length: 0\r\n\r\n",
        POST + b"X: a\nContent-Length: 0\r\n\r\n",
        POST + b"X: a\rb\r\n\r\n",
        POST + b"X: a\x00b\r\n\r\n",
        b"POST /first HTTP/1.1\nHost: a\nContent-Length: 0\n\n",
        b"POST /first HTTP/1.1\r\n Host: a\r\n\r\n",
        b"POST /first HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS,
        b"POST /first HTTP/2.0\r\nHost: a\r\n\r\n",
        b"GET /first\r\n\r\n",
        b"POST /first HTTP/1.1\r\n\r\n",
        POST + b"Host: b\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n" + CHUNKS,
        POST + b"Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n" + CHUNKS,
        POST + b"Transfer-Encoding: chunked\r\n\r\n0x1\r\nh\r\n" + CHUNKS,
        POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nhello\r\n" + CHUNKS,
        POST + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nh\r\n" + CHUNKS,
        POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\nabc",
        b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET http://a HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
def test_framing_that_two_could_read_in_two_ways_is_refused(request_bytes: bytes) -> None:
    async def scenario(server: Running, echo: Echo) -> None:
        said = await server.say(request_bytes + SMUGGLED)
        assert status_of(said) == 400
        assert said.count(b"content-length: ") == 1
        assert b"connection: close" in said
        assert error_of(said)["error_type"] == "malformed"
        assert "/smuggled" not in [scope["path"] for scope in echo.scopes]
        assert ("/first", b"") not in echo.asked

    on_a_server(scenario)


def test_good_framing_has_no_fault() -> None:
    host = (b"host", b"a")
    assert framing_fault("1.1", [host, (b"transfer-encoding", b"Chunked")], False) == ""
    assert framing_fault("1.1", [host, (b"content-length", b"7")], False) == ""
    assert framing_fault("1.1", [host, (b"content-length", b"0")], True) == ""
    assert framing_fault("1.0", [], False) == ""


def test_a_header_behind_the_body_does_not_reach_the_app() -> None:
    async def scenario(server: Running, echo: Echo) -> None:
        reader, writer = await server.connect()
        trailer = b"0\r\nAuthorization: Bearer stolen\r\n\r\n"
        writer.write(POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n" + trailer)
        assert await answer(reader) == (200, b"ok")
        assert b"authorization" not in dict(echo.scopes[0]["headers"])
        writer.close()

    on_a_server(scenario)


def test_an_upgrade_without_a_body_is_answered_in_http_1_and_closed() -> None:
    async def scenario(server: Running, echo: Echo) -> None:
        said = await server.say(GET[:-2] + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
        assert status_of(said) == 200
        assert b"connection: close" in said

    on_a_server(scenario)
