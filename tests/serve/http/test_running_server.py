"""A whole server in this process, on a real socket: start, TLS, connections, and the drain."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.judges import until
from tests.serve.http.conftest import EXAMPLE, EvenBackend
from tests.serve.http.connections import GET, PATIENCE, connect, exchange, status_of
from trivet.data.windows import Windows
from trivet.errors import BackendError, ConfigError
from trivet.evaluation.evaluator import Evaluator
from trivet.model.aggregate import Outputs
from trivet.serve.http.http_server import allowed_connections, bind
from trivet.serve.http.running_server import RunningServer, warm_up_examples
from trivet.serve.http.server_settings import ServerSettings

TLS = Path(__file__).parent / "tls"
GET_LIVE = b"GET /health/live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def serving(
    backend: EvenBackend,
    verify: ssl.SSLContext | bool = True,
    *,
    warm: bool = True,
    **settings: Any,
) -> AsyncIterator[tuple[RunningServer, httpx2.AsyncClient]]:
    """Run a server; with ``warm=False`` it may still be starting."""
    chosen = ServerSettings(port=0, **settings)
    server = RunningServer(Evaluator(backend=backend), chosen)
    with bind(chosen.host, chosen.port) as bound:
        starting = asyncio.create_task(server.start(bound))
        await (starting if warm else until(lambda: server.url))
        try:
            async with (
                asyncio.timeout(PATIENCE),
                httpx2.AsyncClient(base_url=server.url, verify=verify) as client,
            ):
                yield server, client
        finally:
            backend.gate.set()
            await starting
            await server.stop()


def port_of(server: RunningServer) -> int:
    return int(server.url.rpartition(":")[2])


# Start ----------------------------------------------------------------------------------------


async def test_it_is_ready_after_windows_of_all_lengths(
    backend: EvenBackend, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.INFO, "trivet.serve.http.request_middleware")
    backend.gate.clear()
    async with serving(backend, warm=False) as (server, client):
        ready = await client.get("/health/ready")
        assert (ready.status_code, ready.json()["error"]) == (503, "warming up")
        assert (await client.get("/health/live")).status_code == 200
        # A probe that comes too early is not an event; a request is.
        assert (await client.get("/nowhere")).status_code == 404
        logged = [record for record in caplog.records if record.message == "request"]
        assert [(record.levelname, "(none)" in str(vars(record))) for record in logged] == [
            ("INFO", True)
        ]
        backend.gate.set()
        await until(lambda: server.health.ready() is None)
        assert (await client.get("/health/ready")).status_code == 200
    lengths = [length for _, length in backend.calls]
    assert len(lengths) >= len(warm_up_examples(512))
    assert (min(lengths) < 64, max(lengths) > 448) == (True, True)


async def test_a_queue_that_requests_fill_meanwhile_does_not_end_the_start() -> None:
    class OneCallBackend(EvenBackend):
        """Shuts its gate after the first call."""

        def run(self, windows: Windows) -> Outputs:
            outputs = super().run(windows)
            if len(self.calls) == 1:
                self.gate.clear()
            return outputs

    backend = OneCallBackend()
    backend.gate.clear()
    async with serving(backend, warm=False, max_queued_windows=2) as (server, client):
        await until(backend.entered.is_set)
        body = {"examples": [EXAMPLE] * 20}  # while the queue is empty, it may exceed the limit
        work = asyncio.create_task(client.post("/v1/evaluate", json=body))
        await until(lambda: server.batcher.state().windows == 20)
        backend.gate.set()  # the canary is answered, and the next example finds no room
        none = 'trivet_rejected_total{reason="windows"} 0.0'
        while none in (await client.get("/metrics")).text:
            continue
        backend.gate.set()
        assert (await work).status_code == 200
        await until(lambda: server.health.ready() is None)


async def test_a_backend_that_fails_on_a_stored_example_is_refused(backend: EvenBackend) -> None:
    backend.error = BackendError("the backend is broken")
    message = r"cannot evaluate a stored example \(backend_failed\)"
    server = RunningServer(Evaluator(backend=backend), ServerSettings(port=0))
    with pytest.raises(BackendError, match=message):
        await server.start(bind("127.0.0.1", 0))
    assert server.health.ready() == "warming up"
    await server.stop()


def test_a_taken_port_and_a_foreign_address_are_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = rf"port {port} of 127.0.0.1 cannot be used: Address .*; give another \(--port\)"
        with pytest.raises(ConfigError, match=message):
            bind("127.0.0.1", port)
    with pytest.raises(ConfigError, match=r"port 1 of 192\.0\.2\.1 cannot be used"):
        bind("192.0.2.1", 1)
    with pytest.raises(ConfigError, match="is not an address of this machine"):
        bind("no-such-host.invalid", 1)


def test_a_name_and_ipv6_are_addresses() -> None:
    for host in ("localhost", "::1"):
        with bind(host, 0) as bound:
            assert bound.getsockname()[1] > 0


# TLS ------------------------------------------------------------------------------------------


def trusting() -> ssl.SSLContext:
    """Return a client's context that accepts every certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def test_tls_is_at_least_1_2_and_plain_http_is_refused(backend: EvenBackend) -> None:
    files: dict[str, Any] = {"tls_cert": TLS / "cert.pem", "tls_key": TLS / "key.pem"}
    async with serving(backend, verify=trusting(), **files) as (server, client):
        assert server.url.startswith("https://")
        assert (await client.post("/v1/evaluate", json=EXAMPLE)).status_code == 200
        assert b"HTTP" not in await exchange(port_of(server), GET_LIVE)
        old = trusting()
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(ssl.SSLError):
            await asyncio.open_connection("127.0.0.1", port_of(server), ssl=old)


async def test_an_unreadable_certificate_is_refused(backend: EvenBackend, tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("nothing")
    for cert in (tmp_path / "cert.pem", tmp_path / "missing.pem"):
        with pytest.raises(ConfigError, match=rf"TLS cannot be set up with {cert}"):
            async with serving(backend, tls_cert=cert, tls_key=TLS / "key.pem"):
                pass


# Connections ----------------------------------------------------------------------------------


async def test_a_connection_beyond_the_limit_waits(backend: EvenBackend) -> None:
    async with serving(backend, max_connections=3) as (server, _):
        held = [await connect(port_of(server)) for _ in range(3)]
        for _, writer in held:
            writer.write(GET[:9])
        waiting = asyncio.create_task(exchange(port_of(server), GET_LIVE))
        await asyncio.wait([waiting], timeout=0.1)
        assert not waiting.done()
        held[0][1].close()
        assert status_of(await waiting) == 200
        for _, writer in held:
            writer.close()


def test_connections_leave_files_for_the_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    limits = [(256, 256)]
    monkeypatch.setattr(resource, "getrlimit", lambda what: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda what, limit: limits.append(limit))
    assert allowed_connections(100) == 100
    assert len(limits) == 1
    assert allowed_connections(512) == 256 - 64
    assert "at most 192 connections, not 512" in caplog.text
    limits[:] = [(256, 4096)]
    assert allowed_connections(512) == 512
    assert limits[-1] == (512 + 64, 4096)
    limits[:] = [(256, resource.RLIM_INFINITY)]
    assert allowed_connections(5000) == 5000
    limits[:] = [(64, 64)]
    with pytest.raises(ConfigError, match="may open 64 files and needs 64 itself"):
        allowed_connections(512)


# Drain ----------------------------------------------------------------------------------------


async def test_draining_finishes_old_work_and_refuses_new_work(backend: EvenBackend) -> None:
    async with serving(backend) as (server, client):
        backend.gate.clear()
        work = [asyncio.create_task(client.post("/v1/evaluate", json=EXAMPLE)) for _ in range(3)]
        await until(lambda: server.batcher.state().requests == 3)
        stopping = asyncio.create_task(server.stop())
        await until(lambda: server.batcher.state().draining)
        ready = await client.get("/health/ready")
        assert (ready.status_code, ready.headers["connection"]) == (503, "close")
        assert ready.json()["error_type"] == "unhealthy"
        assert ready.json()["error"] == "draining: the server is shutting down"
        assert (await client.get("/health/live")).json() == {"status": "live"}
        refused = await client.post("/v1/evaluate", json=EXAMPLE)
        assert (refused.status_code, refused.json()["error_type"]) == (503, "draining")
        assert "retry-after" in refused.headers
        assert not stopping.done()
        backend.gate.set()
        for answer in await asyncio.gather(*work):
            assert answer.status_code == 200
            assert answer.headers["connection"] == "close"
        assert await stopping
        with pytest.raises(httpx2.ConnectError):
            await client.get("/health/live")


async def test_idle_and_unfinished_connections_do_not_delay_the_end(backend: EvenBackend) -> None:
    async with serving(backend, header_timeout_seconds=0.5, grace_seconds=1.0) as (server, client):
        assert (await client.get("/health/live")).status_code == 200  # stays open, idle
        port = port_of(server)
        waiting = [asyncio.create_task(exchange(port, begun)) for begun in (b"", GET[:9])]
        assert (await client.get("/health/live")).status_code == 200
        assert await server.stop()
        assert await asyncio.gather(*waiting) == [b"", b""]
