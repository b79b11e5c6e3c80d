"""``AsyncClient`` does on an event loop what ``Client`` does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import httpx2
import pytest

import trivet
from tests.client.conftest import EXAMPLES, ScriptedServer, call, error
from trivet.records import Evaluation, FailedEvaluation, RagExample, ServerError


def test_results_are_those_of_the_client(server: ScriptedServer, client: trivet.Client) -> None:
    many = RagExample("Where?", ("Here.",) * 300, "There.", "many")
    failed = FailedEvaluation("x", "malformed_line", "line 5")
    given: list[RagExample | FailedEvaluation] = [*EXAMPLES, many, failed]
    example = EXAMPLES[0]

    async def check() -> None:
        async with trivet.AsyncClient(server.url) as judge:
            expected = list(client.evaluate_many(given))
            assert [result async for result in judge.evaluate_many(given)] == expected
            assert await judge.evaluate(**call(example)) == expected[0]
            texts = (example.question, example.contexts)
            assert await judge.relevance(*texts) == client.relevance(*texts)
            assert await judge.info() == client.info()
            assert await judge.ready() is True

    asyncio.run(check())


def test_problems_are_retried_and_raised_as_by_the_client(server: ScriptedServer) -> None:
    server.script.extend([error(503, "draining"), httpx2.ReadError("reset")])

    async def check() -> None:
        async with trivet.AsyncClient(server.url, retries=2) as judge:
            assert isinstance(await judge.evaluate("Where?", ["Here."], "There."), Evaluation)
            server.script.extend([error(429, "overloaded")] * 3)
            with pytest.raises(ServerError, match="scripted overloaded"):
                await judge.evaluate("Where?", ["Here."], "There.")
            with pytest.raises(trivet.ExampleError) as caught:
                await judge.evaluate("Where?", [], "There.")
            assert caught.value.code == "empty_contexts"

    asyncio.run(check())
    assert len(server.requests) == 3 + 3 + 1


def test_requests_run_concurrently_and_no_more_is_read_than_they_hold(
    server: ScriptedServer,
) -> None:
    both, read = threading.Barrier(2, timeout=20), []

    def wait_for_the_other(request: httpx2.Request) -> None:
        if len(server.requests) <= 2:
            both.wait()

    async def stream() -> AsyncIterator[RagExample]:
        for number in range(40):
            await asyncio.sleep(0)
            read.append(number)
            yield EXAMPLES[0]

    async def check() -> None:
        async with trivet.AsyncClient(server.url, connections=2, examples_per_request=2) as judge:
            results = judge.evaluate_many(stream())
            assert isinstance(await anext(results), Evaluation)
            assert not both.broken
            assert len(read) == 4
            await results.aclose()
            assert len(asyncio.all_tasks()) == 1, "no request is left running"

    server.on_request = wait_for_the_other
    asyncio.run(check())


def test_requests_before_a_broken_stream_are_answered(server: ScriptedServer) -> None:
    async def stream() -> AsyncIterator[RagExample]:
        for example in EXAMPLES:
            yield example
        raise OSError("the line is cut")

    async def check() -> None:
        async with trivet.AsyncClient(server.url, examples_per_request=1) as judge:
            results = judge.evaluate_many(stream())
            for _ in EXAMPLES:
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
