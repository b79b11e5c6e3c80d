"""Bodies that are too large are refused before they are read, or as soon as they are."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message, Receive, Scope, Send

from trivet.serve.http.body_limit import BodyLimit
from trivet.serve.http.errors import RequestError


class Reader:
    """An app that reads a body; remembers how much of it it saw."""

    def __init__(self) -> None:
        self.got = b""
        self.called = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.called = True
        if scope["type"] != "http":
            return
        while True:
            message = await receive()
            self.got += message.get("body", b"")
            if not message.get("more_body"):
                return


def ask(headers: list[tuple[bytes, bytes]], pieces: list[bytes], kind: str = "http") -> Reader:
    """Send a body in pieces to a reader behind a limit of 100 bytes."""
    left = list(pieces)

    async def receive() -> Message:
        piece = left.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(left)}

    async def send(message: Message) -> None:
        raise AssertionError("nothing is answered here")

    reader = Reader()
    try:
        asyncio.run(BodyLimit(reader, 100)({"type": kind, "headers": headers}, receive, send))
    except RequestError as error:
        error.__dict__["reader"], error.__dict__["left"] = reader, len(left)
        raise
    return reader


def test_a_body_within_the_limit_passes_whole() -> None:
    assert ask([(b"content-length", b"100")], [b"x" * 60, b"y" * 40]).got == b"x" * 60 + b"y" * 40
    assert ask([], [b"x" * 60, b"y" * 40]).got == b"x" * 60 + b"y" * 40


def test_a_claim_beyond_the_limit_is_refused_before_the_app_is_called() -> None:
    with pytest.raises(
        RequestError, match="the body has 101 bytes, more than max_body_bytes=100"
    ) as e:
        ask([(b"content-length", b"101")], [b"x" * 101])
    assert (e.value.error_type, e.value.status) == ("too_large", 413)
    assert not e.value.__dict__["reader"].called
    assert e.value.__dict__["left"] == 1


def test_a_body_that_claims_nothing_is_refused_when_it_passes_the_limit() -> None:
    with pytest.raises(RequestError, match="the body has at least 110 bytes") as e:
        ask([(b"transfer-encoding", b"chunked")], [b"x" * 55] * 10)
    assert e.value.status == 413
    assert e.value.__dict__["reader"].got == b"x" * 55
    assert e.value.__dict__["left"] == 8


def test_what_is_no_request_passes() -> None:
    assert ask([], [], kind="lifespan").called
