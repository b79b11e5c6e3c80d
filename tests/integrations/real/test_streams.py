"""Guards around the streams of the real libraries, with scripted models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import trivet
from tests.integrations.test_guard import ANSWER, PASSED, WoodJudge

ACTIONS = pytest.mark.parametrize("action", ["stop", "mark"])


def guarded(stream: Any, action: Any) -> str:
    """Return what passes of a stream."""
    guard = trivet.guard(stream, "", ["x"], on_unsupported=action, judge=WoodJudge())
    return "".join(guard)


async def guarded_async(stream: Any, action: Any) -> str:
    """Return what passes of an asynchronous stream."""
    guard = trivet.guard(stream, "", ["x"], on_unsupported=action, judge=WoodJudge())
    return "".join([text async for text in guard])


def events(kind: str) -> bytes:
    """Return the answer of OpenAI's server, with a chunk for each word."""
    words = [f"{word} " for word in ANSWER.rstrip().split(" ")]
    words[-1] += " "
    common = {"id": "c", "created": 0, "model": "m"}
    if kind == "responses":
        fields = {"item_id": "i", "output_index": 0, "content_index": 0, "logprobs": []}
        records: list[Any] = [
            {"type": "response.output_text.delta", "delta": word, "sequence_number": n, **fields}
            for n, word in enumerate(words)
        ]
    else:
        records = [
            {
                **common,
                "object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}],
            }
            for word in words
        ]
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        records.append({**common, "object": "chat.completion.chunk", "choices": [], "usage": usage})
    lines = [f"data: {json.dumps(record)}\n\n" for record in records]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


CALLS: dict[str, Callable[[Any], Any]] = {
    "chat": lambda client: client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "Q?"}], stream=True
    ),
    "responses": lambda client: client.responses.create(model="m", input="Q?", stream=True),
}


@ACTIONS
@pytest.mark.parametrize("kind", CALLS)
def test_openai(kind: str, action: Any) -> None:
    openai = pytest.importorskip("openai")
    httpx = pytest.importorskip("httpx")

    def answer(request: Any) -> Any:
        headers = {"content-type": "text/event-stream"}
        return httpx.Response(200, headers=headers, content=events(kind))

    transport = httpx.MockTransport(answer)
    client = openai.OpenAI(api_key="k", http_client=httpx.Client(transport=transport))
    stream = CALLS[kind](client)
    assert guarded(stream, action) == PASSED[action]
    assert stream.response.is_closed

    async def run() -> str:
        http = httpx.AsyncClient(transport=transport)
        async with openai.AsyncOpenAI(api_key="k", http_client=http) as client:
            return await guarded_async(await CALLS[kind](client), action)

    assert asyncio.run(run()) == PASSED[action]


@ACTIONS
def test_langchain(action: Any) -> None:
    models = pytest.importorskip("langchain_core.language_models.fake_chat_models")

    def model() -> Any:
        return models.GenericFakeChatModel(messages=iter([ANSWER]))

    assert guarded(model().stream("Q?"), action) == PASSED[action]
    assert asyncio.run(guarded_async(model().astream("Q?"), action)) == PASSED[action]

    def step(chunks: Any) -> Iterator[str]:
        yield from trivet.guard(chunks, "", ["x"], on_unsupported=action, judge=WoodJudge())

    assert "".join((model() | step).stream("Q?")) == PASSED[action]
    assert (model() | step).invoke("Q?") == PASSED[action]


@ACTIONS
def test_llama_index(action: Any) -> None:
    llms = pytest.importorskip("llama_index.core.llms")
    schema = pytest.importorskip("llama_index.core.base.response.schema")
    model = llms.MockLLM()  # repeats the prompt, letter by letter
    assert guarded(model.stream_complete(ANSWER), action) == PASSED[action]
    message = llms.ChatMessage(role="user", content=ANSWER)
    assert PASSED[action].rstrip() in guarded(model.stream_chat([message]), action)

    async def run() -> str:
        return await guarded_async(await model.astream_complete(ANSWER), action)

    assert asyncio.run(run()) == PASSED[action]
    response = schema.StreamingResponse(response_gen=iter(ANSWER))
    assert guarded(response.response_gen, action) == PASSED[action]
