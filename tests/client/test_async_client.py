"""The same calls on an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

import trivet
from tests.client.conftest import EXAMPLES, Asked, Reset, Running, error
from trivet.records import Evaluation, ExampleError, FailedEvaluation, RagExample, ServerError


def test_the_calls_give_what_the_clients_give(server: Running, client: trivet.Client) -> None:
    many = RagExample("Where?", ("Here.",) * 300, "There.", "many")
    given: list[RagExample | FailedEvaluation] = [
        *EXAMPLES,
        many,
        FailedEvaluation("x", "malformed_line", "line 5"),
    ]

    async def ask() -> tuple[object, ...]:
        async with trivet.AsyncClient(server.url) as judge:
            example = EXAMPLES[0]
            return (
                await judge.evaluate(
                    example.question, example.contexts, example.response, id=example.id
                ),
                await judge.relevance(example.question, example.contexts),
                await judge.info(),
                await judge.ready(),
                [result async for result in judge.evaluate_many(given)],
            )

    verdict, relevance, info, ready, results = asyncio.run(ask())
    assert results == list(client.evaluate_many(given))
    assert isinstance(results, list)
    assert verdict == results[0]
    assert relevance == client.relevance(EXAMPLES[0].question, EXAMPLES[0].contexts)
    assert info == client.info()
    assert ready is True


def test_it_asks_again_and_raises_the_same_errors(server: Running) -> None:
    server.served.script.extend([error(503, "draining"), Reset()])

    async def ask() -> list[object]:
        said: list[object] = []
        async with trivet.AsyncClient(server.url, retries=2) as judge:
            said.append(await judge.evaluate("Where?", ["Here."], "There."))
            server.served.script.extend([error(429, "overloaded")] * 3 + [error(500, "internal")])
            for contexts in (["Here."], ["Here."], []):
                try:
                    await judge.evaluate("Where?", contexts, "There.")
                except (ServerError, ExampleError) as problem:
                    said.append(problem)
        return said

    verdict, overloaded, internal, empty = asyncio.run(ask())
    assert isinstance(verdict, Evaluation)
    assert isinstance(overloaded, ServerError)
    assert isinstance(internal, ServerError)
    assert isinstance(empty, ExampleError)
    assert (overloaded.status, internal.status) == (429, 500)
    assert empty.code == "empty_contexts"
    assert len(server.served.asked) == 3 + 3 + 1 + 1


def test_several_requests_are_on_their_way_from_a_stream_that_comes_slowly(
    server: Running,
) -> None:
    both, read = threading.Barrier(2, timeout=20), []

    def wait_for_the_other(asked: Asked) -> None:
        if len(server.served.asked) <= 2:
            both.wait()

    async def stream() -> AsyncIterator[RagExample]:
        for number in range(40):
            await asyncio.sleep(0)
            read.append(number)
            yield EXAMPLES[0]

    async def ask() -> None:
        async with trivet.AsyncClient(server.url, connections=2, examples_per_request=2) as judge:
            results = judge.evaluate_many(stream())
            assert isinstance(await anext(results), Evaluation)
            assert not both.broken
            assert len(read) == 4
            await results.aclose()
            assert len(asyncio.all_tasks()) == 1, "nothing is left on its way"

    server.served.on_request = wait_for_the_other
    asyncio.run(ask())


def test_a_stream_that_breaks_off_is_answered_as_far_as_it_came(server: Running) -> None:
    async def stream() -> AsyncIterator[RagExample]:
        for example in EXAMPLES:
            yield example
        raise OSError("the line is cut")

    async def ask() -> list[object]:
        said: list[object] = []
        async with trivet.AsyncClient(server.url, examples_per_request=1) as judge:
            try:
                async for result in judge.evaluate_many(stream()):
                    said.append(result)
            except OSError as problem:
                said.append(str(problem))
        return said

    *results, problem = asyncio.run(ask())
    assert [type(result) for result in results] == [Evaluation] * 3
    assert problem == "the line is cut"


def test_who_gives_up_waiting_gives_up_asking(server: Running) -> None:
    server.served.script.append(error(429, "overloaded", retry_after="30"))

    async def ask() -> None:
        async with trivet.AsyncClient(server.url) as judge:
            asking = asyncio.create_task(judge.evaluate("Where?", ["Here."], "There."))
            while not server.served.asked:
                await asyncio.sleep(0.005)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking

    asyncio.run(ask())
    assert len(server.served.asked) == 1
