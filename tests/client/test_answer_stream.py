"""Answers judged by a server while they are written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

import trivet
from tests.client.conftest import ScriptedServer, error
from trivet.errors import BackendError, ExampleError, ServerError

QUESTION = "When was the mill built?"
CONTEXTS = ["The mill was built in 1817. It is made of stone.", "The ferry is red."]
ANSWER = "The mill was built in 1817. It is made of \ud800 wood. The ferry is r"


def test_events_are_the_evaluators(url: str, embedded: trivet.Evaluator) -> None:
    expected = embedded.stream(QUESTION, CONTEXTS)
    with trivet.Client(url) as client:
        stream = client.stream(QUESTION, CONTEXTS, id="q")
        events = [event for piece in ANSWER for event in stream.feed(piece)] + stream.flush()
        assert stream.text == ANSWER
        assert stream.flush() == stream.feed("") == []
        verdict = stream.close()
        assert stream.close() is verdict
        assert verdict == client.evaluate(QUESTION, CONTEXTS, ANSWER, id="q")
    mine = expected.feed(ANSWER) + expected.flush()
    assert [event.source_text for event in events] == [event.source_text for event in mine]
    assert [(e.start, e.end) for e in events] == [(e.start, e.end) for e in mine]
    assert [e.support for e in events] == pytest.approx([e.support for e in mine], abs=1e-5)
    assert [(e.threshold, e.abstains) for e in events] == [(e.threshold, e.abstains) for e in mine]
    for event in events:
        assert event.support is not None and event.threshold is not None
        assert event.supported is (event.support >= event.threshold)


REFUSAL = "Sure! I don't know the price. The passages do not mention it."


def test_a_guard_by_a_server_lets_a_refusal_pass(url: str) -> None:
    async def pieces() -> AsyncIterator[str]:
        for piece in REFUSAL.split(" "):
            yield f"{piece} "

    async def run() -> tuple[str, Any]:
        async with trivet.AsyncClient(url) as client:
            guarded = trivet.guard(
                pieces(), "What is it?", CONTEXTS, on_unsupported="stop", judge=client
            )
            return "".join([text async for text in guarded]), guarded.events

    passed, events = asyncio.run(run())
    assert passed == f"{REFUSAL} "
    claims = [(event.supported is None, event.abstains) for event in events]
    assert claims == [(True, False), (True, True), (True, True)]


def test_an_event_loop_gets_the_same(url: str) -> None:
    async def run() -> Any:
        async with trivet.AsyncClient(url) as client:
            stream = client.stream(QUESTION, CONTEXTS, windows="all", threshold=0.2)
            return await stream.afeed(ANSWER) + await stream.aflush(), await stream.aclose()

    with trivet.Client(url) as client:
        stream = client.stream(QUESTION, CONTEXTS, windows="all", threshold=0.2)
        assert asyncio.run(run()) == (stream.feed(ANSWER) + stream.flush(), stream.close())


@pytest.mark.parametrize("threshold", [0.0, 1.0])
def test_a_threshold_decides(url: str, threshold: float) -> None:
    with trivet.Client(url) as client:
        stream = client.stream(QUESTION, CONTEXTS, threshold=threshold)
        assert [event.supported for event in stream.feed(ANSWER)] == [threshold == 0.0] * 2
        assert stream.close().threshold == threshold


def test_without_contexts_the_first_sentence_is_refused(url: str) -> None:
    with trivet.Client(url) as client:
        stream = client.stream(QUESTION, [])
        assert stream.feed("The mill is old.") == []
        with pytest.raises(ExampleError) as refused:
            stream.feed(" It ")
        assert refused.value.code == "empty_contexts"
        allowed = client.stream(QUESTION, [], allow_empty_contexts=True)
        assert len(allowed.feed("The mill is old. It ")) == 1


def test_a_closed_stream_takes_no_more_text(url: str) -> None:
    with trivet.Client(url) as client:
        stream = client.stream(QUESTION, CONTEXTS)
        stream.close()
        with pytest.raises(ValueError, match="begin another one"):
            stream.feed("The")
        with pytest.raises(ExampleError, match="bytes"):
            client.stream(QUESTION, CONTEXTS).feed(b"The")  # type: ignore[arg-type]


EVENT = 'event: error\ndata: {"error": "it broke", "error_type": "%s", "request_id": "r-1"}\n\n'


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (EVENT % "backend_failed", BackendError, "it broke"),
        (EVENT % "deadline", ServerError, "it broke"),
        ("", ServerError, "the events break off"),
        ("event: sentence\ndata: {}\n\n", ServerError, "does not answer like a Trivet server"),
        ("event: error\ndata: {}\n\n", ServerError, "invalid_answer"),
        ("<html>", ServerError, "the events break off"),
    ],
)
def test_broken_events_are_typed_errors(
    server: ScriptedServer, text: str, kind: type[Exception], message: str
) -> None:
    server.script.append(httpx2.Response(200, text=text))
    stream = trivet.Client(server.url).stream(QUESTION, CONTEXTS)
    with pytest.raises(kind, match=message):
        stream.feed("The mill is old. It ")


def test_a_request_for_a_sentence_is_repeated_like_any_other(server: ScriptedServer) -> None:
    end = httpx2.Response(200, text='event: end\ndata: {"start": 16}\n\n')
    server.script += [error(503, "draining"), end]
    stream = trivet.Client(server.url).stream(QUESTION, CONTEXTS)
    assert stream.feed("The mill is old. It ") == []
    assert len(server.requests) == 2
    assert stream.feed("is wide") == []
    assert len(server.requests) == 2
