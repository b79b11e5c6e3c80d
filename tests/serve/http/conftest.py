"""The whole app on the embedded bundle, in its own event loop, without a socket."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from tests.judges import GatedBackend
from tests.serve.http.gated_batcher import GatedBatcher, opened
from trivet.backends.backend import Backend
from trivet.data.windows import Windows
from trivet.evaluation.evaluator import Evaluator
from trivet.model.aggregate import Outputs
from trivet.serve.http.health import CANARY
from trivet.serve.http.keys import KeyRing
from trivet.serve.http.running_server import RunningServer
from trivet.serve.http.server_settings import ServerSettings
from trivet.serve.http.telemetry import Telemetry

EXAMPLE: dict[str, Any] = {
    "question": CANARY.question,
    "contexts": list(CANARY.contexts),
    "response": CANARY.response,
}


class EvenBackend:
    """A backend that answers one probability for every token, once its gate is open."""

    name = "even"

    def __init__(self, value: float = 0.5) -> None:
        self.value = value
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.calls: list[tuple[int, ...]] = []
        self.error: Exception | None = None

    def run(self, windows: Windows) -> Outputs:
        self.calls.append(windows.input_ids.shape)
        self.entered.set()
        assert self.gate.wait(timeout=30)
        if self.error is not None:
            raise self.error
        response, context = windows.response_at.shape[:2], windows.context_at.shape[:2]
        sentences, examples = windows.sentence_pool.shape[:2], response[:1]
        shapes = (response, context, context, sentences, *[examples] * 4)
        return Outputs(*(np.full(shape, self.value, np.float32) for shape in shapes))


class Asked:
    """An app, its parts and a client."""

    def __init__(
        self,
        evaluator: Evaluator,
        settings: ServerSettings | None = None,
        keys: KeyRing | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.settings = settings or ServerSettings()
        self._runner = asyncio.Runner()
        self.run: Callable[[Any], Any] = self._runner.run
        parts = RunningServer(evaluator, self.settings, keys, telemetry)
        self.app = parts.app
        self.batcher, self.health = parts.batcher, parts.health
        self.health.warmed(self.batcher)
        self.client = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(self.app), base_url="http://trivet.test"
        )

    def post(
        self, path: str, body: Any, headers: Mapping[str, str] | None = None
    ) -> httpx2.Response:
        """Post a body: bytes as they are, anything else as JSON."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._runner.run(self.client.post(path, content=raw, headers=headers))

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        return self._runner.run(self.client.get(path, headers=headers))

    def metric(self, name: str) -> float:
        """Return one series of the metrics, such as ``trivet_cut_total``."""
        for line in self.get("/metrics").text.splitlines():
            if line.startswith(f"{name} "):
                return float(line.rpartition(" ")[2])
        raise AssertionError(f"no {name} in the metrics")

    def close(self) -> None:
        self.run(self.client.aclose())
        self.run(self.batcher.close())
        self._runner.close()


def refusal(response: httpx2.Response) -> tuple[int, str, str]:
    """Check the form of an error; return status, type and message."""
    body = response.json()
    assert set(body) == {"error", "error_type", "request_id"}
    assert all(isinstance(value, str) and value for value in body.values())
    assert response.headers["x-request-id"] == body["request_id"]
    assert response.headers["content-type"] == "application/json"
    return response.status_code, body["error_type"], body["error"]


class Wire:
    """An ASGI client that sends a body, and hangs up once ``gone`` is set."""

    def __init__(self, body: bytes) -> None:
        self.gone = asyncio.Event()
        self.sent: list[Any] = []
        self._body: bytes | None = body

    async def receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def post(self, app: Any, path: str) -> None:
        """Post the body to an app, until it has answered."""
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": b"",
            "headers": [(b"host", b"trivet.test")],
            "http_version": "1.1",
        }
        await app(scope, self.receive, self.send)


@pytest.fixture(scope="module")
def server(embedded: Evaluator) -> Iterator[Asked]:
    """Return the app with default settings; one for a file."""
    asked = Asked(embedded)
    yield asked
    asked.close()


Serve = Callable[..., Asked]


@pytest.fixture
def serve(embedded: Evaluator, tmp_path: Path) -> Iterator[Serve]:
    """Return a function that builds an app with settings, a text of keys or another backend."""
    built: list[Asked] = []

    def build(
        settings: ServerSettings | None = None,
        key_file: str | None = None,
        backend: Backend | None = None,
        evaluator: Evaluator = embedded,
    ) -> Asked:
        if backend is not None:
            evaluator = Evaluator(backend=backend)
        keys = None
        if key_file is not None:
            file = tmp_path / "keys"
            file.write_text(key_file)
            settings = replace(settings or ServerSettings(), keys_file=file)
            keys = KeyRing.read(file)
        built.append(Asked(evaluator, settings, keys))
        return built[-1]

    yield build
    for asked in built:
        asked.close()


@pytest.fixture
def backend() -> EvenBackend:
    return EvenBackend()


@pytest.fixture
async def at(gated_judge: Evaluator, gated: GatedBackend) -> AsyncIterator[GatedBatcher]:
    """Return a batcher with the usual settings: four windows a call."""
    async with opened(gated_judge, gated) as gated_batcher:
        yield gated_batcher
