"""Servers: one by a script, which otherwise answers as the embedded bundle does, and real ones."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any

import httpx2
import pytest

import trivet
from trivet.errors import ExampleError
from trivet.records import RagExample
from trivet.serve.http.http_server import bind
from trivet.serve.http.keys import KeyRing
from trivet.serve.http.running_server import RunningServer
from trivet.serve.http.server_settings import ServerSettings

EXAMPLES = [
    RagExample("When was the mill built?", ("The mill was built in 1817.",), "In 1817.", "a"),
    RagExample("Who keeps the lighthouse?", ("It has had no keeper since 1931.",), "Jonas."),
    RagExample("Where does the ferry cross?", ("North of the town.", "Bread is sold."), "", "c"),
]


def call(example: RagExample) -> dict[str, Any]:
    """Return the arguments of ``evaluate``."""
    names = ("question", "contexts", "response", "id")
    return {name: getattr(example, name) for name in names}


def error(status: int, error_type: str, **headers: str) -> httpx2.Response:
    record = {"error": f"scripted {error_type}", "error_type": error_type, "request_id": "r-1"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.Response(status, json=record, headers=named)


class ScriptedServer:
    """Server without a network that answers by its script, and then evaluates requests."""

    url = "http://server"

    def __init__(self, judge: trivet.Evaluator) -> None:
        self.judge = judge
        self.script: deque[httpx2.Response | httpx2.TransportError] = deque()
        self.requests: list[httpx2.Request] = []
        self.on_request: Callable[[httpx2.Request], object] = lambda request: None  # called first

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        self.on_request(request)
        if self.script:
            outcome = self.script.popleft()
            if isinstance(outcome, Exception):
                raise outcome
            content, headers = outcome.content, outcome.headers  # each response is read once
            return httpx2.Response(outcome.status_code, headers=headers, content=content)
        if request.method == "GET":
            return httpx2.Response(200, json={"ready": True, "bundle": "embedded"})
        record = json.loads(request.content)
        allow = record.get("allow_empty_contexts", False)
        if "examples" not in record:
            result = self._evaluate(record, allow)
            if "error" in result:
                return error(422, result["error"]["code"])
            return httpx2.Response(200, json=result)
        if any(len(example["contexts"]) > 256 for example in record["examples"]):
            return error(422, "validation")
        results = [self._evaluate(example, allow) for example in record["examples"]]
        return httpx2.Response(200, json={"results": results})

    async def answer_async(self, request: httpx2.Request) -> httpx2.Response:
        return await asyncio.to_thread(self.answer, request)

    def _evaluate(self, record: dict[str, Any], allow: bool) -> dict[str, Any]:
        texts = (record["question"], record["contexts"], record["response"])
        try:
            verdict = self.judge.evaluate(*texts, id=record.get("id"), allow_empty_contexts=allow)
        except ExampleError as problem:
            return {"error": {"code": problem.code, "message": str(problem)}}
        return verdict.to_dict()


@pytest.fixture
def server(embedded: trivet.Evaluator, monkeypatch: pytest.MonkeyPatch) -> ScriptedServer:
    """Return the server of all clients in the test; pauses between tries are short."""
    scripted = ScriptedServer(embedded)
    for name, answer in (("Client", scripted.answer), ("AsyncClient", scripted.answer_async)):
        transport = httpx2.MockTransport(answer)
        scripted_client = functools.partial(getattr(httpx2, name), transport=transport)
        monkeypatch.setattr(httpx2, name, scripted_client)
    monkeypatch.setattr("trivet.client.FIRST_PAUSE_SECONDS", 0.001)
    return scripted


class BlockingAsyncClient:
    """``AsyncClient`` with the methods of ``Client``, on its own event loop."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.runner = asyncio.Runner()
        self.client = trivet.AsyncClient(*arguments, **options)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.client, name)
        return lambda *arguments, **options: self.runner.run(method(*arguments, **options))

    def evaluate_many(self, examples: Any) -> Iterator[Any]:
        async def following(results: AsyncGenerator[Any]) -> Any:
            return await anext(results, None)

        results = self.client.evaluate_many(examples)
        try:
            while (result := self.runner.run(following(results))) is not None:
                yield result
        finally:
            self.runner.run(results.aclose())
            assert len(asyncio.all_tasks(self.runner.get_loop())) == 0, "a request is left running"

    def __enter__(self) -> BlockingAsyncClient:
        return self

    def __exit__(self, *error: object) -> None:
        with self.runner:
            self.runner.run(self.client.aclose())


@pytest.fixture(params=[trivet.Client, BlockingAsyncClient])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def client(kind: Any, server: ScriptedServer) -> Iterator[Any]:
    with kind(server.url, retries=2) as made:
        yield made


@contextlib.contextmanager
def serving(
    evaluator: trivet.Evaluator, settings: ServerSettings, keys: KeyRing | None = None
) -> Iterator[RunningServer]:
    """Run a server on a free port."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(60)

    server = RunningServer(evaluator, settings, keys)
    try:
        with bind("127.0.0.1", 0) as listening:
            run(server.start(listening))
            yield server
            run(server.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def url(embedded: trivet.Evaluator) -> Iterator[str]:
    with serving(embedded, ServerSettings()) as server:
        yield server.url


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
