"""Errors: status, type and form; and clients that hang up."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any
from unittest.mock import Mock

import pytest

from tests.serve.http.conftest import EXAMPLE, Asked, EvenBackend, Serve, Wire, refusal
from trivet.records import FailedEvaluation
from trivet.serve.http.request_errors import failure_error
from trivet.serve.http.server_settings import ServerSettings


def test_a_failed_example_keeps_its_code_where_clients_know_it() -> None:
    for code in ("empty_contexts", "too_long", "window", "backend_failed", "non_finite"):
        assert failure_error(FailedEvaluation(None, code, "why")).error_type == code
    assert failure_error(FailedEvaluation(None, "bad_sentences", "why")).status == 422


def test_a_valid_request_id_is_kept(server: Asked) -> None:
    named = server.post("/v1/evaluate", EXAMPLE, {"X-Request-Id": "trace-7:a/b"})
    assert named.headers["x-request-id"] == "trace-7:a/b"
    ids = set()
    for strange in ("", "a b", "x" * 129, "<script>", "é".encode()):
        answer = server.post("/v1/evaluate", b"{", {"X-Request-Id": strange})  # type: ignore[dict-item]
        refusal(answer)
        ids.add(answer.headers["x-request-id"])
    assert all(len(name) == 32 and name.isalnum() for name in ids)
    assert len(ids) == 5


def test_without_a_key_only_health_is_answered(serve: Serve) -> None:
    server = serve(key_file="first-key\nsecond-key\n")
    open_ = ["/health/live", "/health/ready"]
    assert {server.get(path).status_code for path in open_} == {200}
    closed = ["/v1/info", "/metrics", "/openapi.json", "/docs"]
    for path in [*closed, "/nowhere"]:
        assert refusal(server.get(path))[:2] == (401, "unauthorized")
    for header in ("", "first-key", "Bearer third-key", "Basic first-key"):
        answer = server.post("/v1/evaluate", b"not read", {"Authorization": header})
        assert refusal(answer)[:2] == (401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"
    for key in ("first-key", "second-key"):
        answer = server.post("/v1/evaluate", EXAMPLE, {"Authorization": f"Bearer {key}"})
        assert answer.status_code == 200
    wire = Wire(b"unread")
    server.run(wire.post(server.app, "/v1/evaluate"))
    assert wire.sent[0]["status"] == 401
    assert server.run(wire.receive())["body"] == b"unread"


def test_a_full_queue_is_answered_with_retry_after(serve: Serve, backend: EvenBackend) -> None:
    server = serve(ServerSettings(max_requests=1), backend=backend)
    backend.gate.clear()

    async def ask() -> Any:
        first = asyncio.create_task(server.client.post("/v1/evaluate", json=EXAMPLE))
        await asyncio.to_thread(backend.entered.wait)
        # Refused before it is read: nobody notices that the second one is not JSON.
        others = [
            await server.client.post("/v1/evaluate", content=content)
            for content in (json.dumps(EXAMPLE), "{")
        ]
        backend.gate.set()
        return await first, others

    first, others = server.run(ask())
    assert first.status_code == 200
    for other in others:
        assert refusal(other)[:2] == (429, "overloaded")
        assert int(other.headers["retry-after"]) >= 1
    assert server.metric('trivet_rejected_total{reason="requests"}') == 2
    assert server.metric('trivet_requests_total{code="429",route="/v1/evaluate"}') == 2


def test_an_unexpected_exception_is_logged_with_the_request_id(
    serve: Serve, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(backend=EvenBackend())
    monkeypatch.setattr(server.batcher, "evaluate", Mock(side_effect=ZeroDivisionError("a secret")))
    answer = server.post("/v1/evaluate", EXAMPLE, {"X-Request-Id": "r-9"})
    assert refusal(answer)[:2] == (500, "internal")
    (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert line.getMessage() == "request r-9 failed"
    assert line.exc_info is not None


PATHS = {
    "/v1/evaluate": {"question": "a", "contexts": ["b"], "response": "c"},
    "/v1/relevance": {"question": "a", "contexts": ["b"]},
    "/classify": {"inputs": "c", "parameters": {"context": "b"}},
}


@pytest.mark.parametrize("path", PATHS)
def test_a_client_that_left_frees_its_place(serve: Serve, backend: EvenBackend, path: str) -> None:
    server = serve(backend=backend)
    backend.gate.clear()

    async def hang_up() -> Wire:
        # The first holds the backend, so that the second waits when its client goes.
        holding = asyncio.create_task(
            server.client.post("/v1/evaluate", json=PATHS["/v1/evaluate"])
        )
        await asyncio.to_thread(backend.entered.wait)
        wire = Wire(json.dumps(PATHS[path]).encode())
        asking = asyncio.create_task(wire.post(server.app, path))
        while server.batcher.state().windows < 1:
            await asyncio.sleep(0.001)
        wire.gone.set()
        await asking
        assert server.batcher.state().windows == 0
        assert server.batcher.state().requests == 1
        backend.gate.set()
        assert (await holding).status_code == 200
        return wire

    wire = server.run(hang_up())
    assert wire.sent[0]["status"] == 499
    assert len(backend.calls) == 1
    assert server.metric('trivet_rejected_total{reason="cancelled"}') == 1
    assert server.metric(f'trivet_requests_total{{code="499",route="{path}"}}') == 1


def test_a_client_that_hangs_up_before_its_body_is_counted(serve: Serve) -> None:
    server, wire = serve(backend=EvenBackend()), Wire(b"")
    server.run(wire.receive())
    wire.gone.set()
    server.run(wire.post(server.app, "/v1/evaluate"))
    assert wire.sent[0]["status"] == 499
