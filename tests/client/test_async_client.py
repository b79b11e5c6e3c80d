"""``AsyncClient`` reads asynchronous streams and can be cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

import trivet
from tests.client.conftest import EXAMPLES, ScriptedServer, error
from trivet.records import Evaluation, RagExample


def test_an_asynchronous_stream_is_read_as_far_as_needed(server: ScriptedServer) -> None:
    read: list[int] = []

    async def stream() -> AsyncIterator[RagExample]:
        for number in range(5):
            await asyncio.sleep(0)
            read.append(number)
            yield EXAMPLES[0]
        raise OSError("the line is cut")

    async def check() -> None:
        async with trivet.AsyncClient(server.url, connections=2, examples_per_request=2) as judge:
            results = judge.evaluate_many(stream())
            assert isinstance(await anext(results), Evaluation)
            assert read == [0, 1, 2, 3]
            for _ in range(3):
                assert isinstance(await anext(results), Evaluation)
            with pytest.raises(OSError, match="the line is cut"):
                await anext(results)

    asyncio.run(check())


def test_a_cancelled_call_is_not_retried(server: ScriptedServer) -> None:
    server.script.append(error(429, "overloaded", retry_after="30"))
    arrived = threading.Event()
    server.on_request = lambda request: arrived.set()

    async def check() -> None:
        async with trivet.AsyncClient(server.url) as judge:
            call = asyncio.create_task(judge.evaluate("Where?", ["Here."], "There."))
            assert await asyncio.to_thread(arrived.wait, 20)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

    asyncio.run(check())
    assert len(server.requests) == 1
