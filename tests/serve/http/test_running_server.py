"""A whole server in this process, on a real socket: how it starts, what it turns away, how it ends.

The engine is the embedded one; where a test needs it to stand still, something holds its calls.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from trivet.backends.backend import Backend
from trivet.backends.loading import EMBEDDED_BUNDLE, load_backend
from trivet.bundle.bundle import read_bundle
from trivet.data.windows import Windows
from trivet.evaluation.evaluator import Evaluator
from trivet.model.aggregate import Outputs
from trivet.records import BackendError, ConfigError
from trivet.serve.http import listener
from trivet.serve.http.health import CANARY
from trivet.serve.http.keys import KeyRing
from trivet.serve.http.listener import most_connections
from trivet.serve.http.running_server import RunningServer, bind, warm_up_examples
from trivet.serve.http.settings import ServerSettings

TLS = Path(__file__).parent / "tls"
PATIENCE = 30.0
EXAMPLE = {
    "question": CANARY.question,
    "contexts": list(CANARY.contexts),
    "response": CANARY.response,
}
GET_LIVE = b"GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n"


class HeldBackend:
    """The embedded engine behind a gate.

    Attributes:
        gate: Open at first; a call waits until it is.
        broken: Whether it raises.
        calls: The positions [N, L] of every call.
    """

    name = "held"

    def __init__(self, engine: Backend) -> None:
        self._engine = engine
        self.gate = threading.Event()
        self.gate.set()
        self.broken = False
        self.calls: list[tuple[int, ...]] = []

    def run(self, windows: Windows) -> Outputs:
        if self.broken:
            raise BackendError("the engine is made of paper")
        self.calls.append(windows.input_ids.shape)
        self.gate.wait(PATIENCE)
        return self._engine.run(windows)


@pytest.fixture(scope="module")
def engine() -> Backend:
    return load_backend(read_bundle(EMBEDDED_BUNDLE), threads=1).backend


@pytest.fixture
def backend(engine: Backend) -> Iterator[HeldBackend]:
    held = HeldBackend(engine)
    yield held
    held.gate.set()


Scenario = Callable[[RunningServer, httpx2.AsyncClient], Awaitable[None]]


def serve(
    backend: HeldBackend,
    scenario: Scenario,
    keys: KeyRing | None = None,
    verify: ssl.SSLContext | bool = True,
    **settings: Any,
) -> None:
    """Run a scenario on a server that is ready."""

    async def whole() -> None:
        chosen = ServerSettings(port=0, **settings)
        server = RunningServer(Evaluator(backend=backend), chosen, keys)
        with bind(chosen.host, chosen.port) as listening:
            await server.start(listening)
            try:
                async with (
                    asyncio.timeout(PATIENCE),
                    httpx2.AsyncClient(base_url=server.url, verify=verify) as client,
                ):
                    await scenario(server, client)
            finally:
                backend.gate.set()
                await server.stop()

    asyncio.run(whole())


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


async def hear(port: int, said: bytes = b"") -> bytes:
    """Say something on a connection of its own, and return all that comes until it is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    got = b""
    try:
        writer.write(said)
        while piece := await reader.read(65_536):
            got += piece
    except ConnectionError:
        return got
    finally:
        writer.close()
    return got


def port_of(server: RunningServer) -> int:
    return int(server.url.rpartition(":")[2])


# Starting -------------------------------------------------------------------------------------


def test_it_is_not_ready_before_the_engine_has_answered_windows_of_every_kind(
    backend: HeldBackend,
) -> None:
    async def whole() -> None:
        server = RunningServer(Evaluator(backend=backend), ServerSettings(port=0))
        backend.gate.clear()
        starting = asyncio.create_task(server.start(bind("127.0.0.1", 0)))
        await until(lambda: server.url and backend.calls)
        async with httpx2.AsyncClient(base_url=server.url) as client:
            ready = await client.get("/health/ready")
            assert (ready.status_code, ready.json()["error"]) == (503, "warming up")
            assert (await client.get("/health/live")).status_code == 200
            backend.gate.set()
            await starting
            assert (await client.get("/health/ready")).status_code == 200
        await server.stop()

    asyncio.run(whole())
    lengths = [length for _, length in backend.calls]
    assert len(backend.calls) >= len(warm_up_examples(512))
    assert min(lengths) < 64
    assert max(lengths) > 448


def test_an_engine_that_cannot_warm_up_is_refused(backend: HeldBackend) -> None:
    async def whole() -> None:
        server = RunningServer(Evaluator(backend=backend), ServerSettings(port=0))
        backend.broken = True
        with pytest.raises(BackendError, match=r"cannot judge a stored example \(backend_failed\)"):
            await server.start(bind("127.0.0.1", 0))
        assert server.health.ready() == "warming up"
        await server.stop()

    asyncio.run(whole())


def test_a_port_that_is_taken_is_refused_by_its_number() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} of 127.0.0.1 cannot be used: Address"):
            bind("127.0.0.1", port)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"port 1 of 192\.0\.2\.1 cannot be used"):
        bind("192.0.2.1", 1)
    with pytest.raises(ConfigError, match="no address of this machine"):
        bind("no-such-host.invalid", 1)


# Keys and TLS ---------------------------------------------------------------------------------


def test_without_a_key_only_health_answers_and_no_body_is_read(
    backend: HeldBackend, tmp_path: Path
) -> None:
    (tmp_path / "keys").write_text("a-key-of-some-length\n")

    async def scenario(server: RunningServer, client: httpx2.AsyncClient) -> None:
        before = len(backend.calls)
        for path in ("/health/live", "/health/ready"):
            assert (await client.get(path)).status_code == 200
        for path in ("/metrics", "/v1/info", "/docs", "/openapi.json", "/nothing"):
            assert (await client.get(path)).status_code == 401
        # Only the headers are sent, and the answer is there.
        head = b"POST /v1/evaluate HTTP/1.1\r\nHost: a\r\nContent-Length: 999\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
        writer.write(head)
        assert b" 401 " in await reader.readline()
        writer.close()
        assert len(backend.calls) == before
        given = {"Authorization": "Bearer a-key-of-some-length"}
        assert (await client.post("/v1/evaluate", json=EXAMPLE, headers=given)).status_code == 200

    serve(backend, scenario, keys=KeyRing.read(tmp_path / "keys"))


def test_tls_is_spoken_from_1_2_on_and_nothing_else(backend: HeldBackend) -> None:
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE

    async def scenario(server: RunningServer, client: httpx2.AsyncClient) -> None:
        assert server.url.startswith("https://")
        assert (await client.post("/v1/evaluate", json=EXAMPLE)).status_code == 200
        port = port_of(server)
        assert await hear(port, GET_LIVE) == b""  # plain HTTP
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(ssl.SSLError):
            await asyncio.open_connection("127.0.0.1", port, ssl=old)

    tls: dict[str, Any] = {"tls_cert": TLS / "cert.pem", "tls_key": TLS / "key.pem"}
    serve(backend, scenario, verify=trusting, **tls)


def test_a_handshake_that_does_not_begin_is_closed_and_counts_as_a_connection(
    backend: HeldBackend,
) -> None:
    async def scenario(server: RunningServer, client: httpx2.AsyncClient) -> None:
        silent = [asyncio.create_task(hear(port_of(server))) for _ in range(5)]
        assert await asyncio.gather(*silent) == [b""] * 5

    tls: dict[str, Any] = {"tls_cert": TLS / "cert.pem", "tls_key": TLS / "key.pem"}
    serve(backend, scenario, header_timeout_seconds=0.3, max_connections=3, **tls)


def test_a_certificate_that_cannot_be_read_is_refused(backend: HeldBackend, tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("nothing")

    async def nothing(server: RunningServer, client: httpx2.AsyncClient) -> None:
        raise AssertionError("it started")

    for cert in (tmp_path / "cert.pem", tmp_path / "missing.pem"):
        with pytest.raises(ConfigError, match=rf"TLS cannot be set up with {cert}"):
            serve(backend, nothing, tls_cert=cert, tls_key=TLS / "key.pem")


# Connections ----------------------------------------------------------------------------------


def test_a_connection_too_many_is_told_so_and_others_live(backend: HeldBackend) -> None:
    async def scenario(server: RunningServer, client: httpx2.AsyncClient) -> None:
        assert (await client.get("/health/live")).status_code == 200  # holds the first
        port = port_of(server)
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for _ in range(20):
            said = await hear(port)
            assert said.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
            assert b'"error_type": "overloaded"' in said
        assert (await client.get("/health/live")).status_code == 200
        page = (await client.get("/metrics")).text
        assert 'trivet_requests_total{code="503",route="(connection)"} 20.0' in page
        assert 'trivet_rejected_total{reason="connections"} 20.0' in page
        for _, writer in held:
            writer.close()
        while not (await hear(port, GET_LIVE[:-2] + b"Connection: close\r\n\r\n")).startswith(
            b"HTTP/1.1 200"
        ):
            await asyncio.sleep(0.01)

    serve(backend, scenario, max_connections=3)


def test_connections_never_take_the_last_descriptors(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    limits = [(256, 256)]
    monkeypatch.setattr(resource, "getrlimit", lambda what: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda what, given: limits.append(given))
    assert most_connections(100) == 100
    assert len(limits) == 1
    assert most_connections(512) == 256 - 64
    assert "at most 192 connections, not 512" in caplog.text
    limits[:] = [(256, 4096)]
    assert most_connections(512) == 512
    assert limits[-1] == (512 + 64, 4096)
    limits[:] = [(256, resource.RLIM_INFINITY)]
    assert most_connections(5000) == 5000
    limits[:] = [(64, 64)]
    with pytest.raises(ConfigError, match="may open 64 files, of which 64 are for itself"):
        most_connections(512)


def test_without_a_descriptor_it_waits_and_goes_on(
    backend: HeldBackend, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listener, "_PAUSE_SECONDS", 0.05)

    async def scenario(server: RunningServer, client: httpx2.AsyncClient) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        asking = socket.socket()
        asking.setblocking(False)
        lowest = socket.socket()
        try:
            # All descriptors up to the next free one may be open, and no other.
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest.fileno() + 1, hard))
            await asyncio.get_running_loop().sock_connect(asking, ("127.0.0.1", port_of(server)))
            await until(lambda: "no connection can be accepted for a while" in caplog.text)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            lowest.close()
        await asyncio.get_running_loop().sock_sendall(asking, GET_LIVE)
        answer = await asyncio.get_running_loop().sock_recv(asking, 1000)
        assert answer.startswith(b"HTTP/1.1 200 OK")
        asking.close()

    serve(backend, scenario)


# Ending ---------------------------------------------------------------------------------------


def test_while_draining_health_answers_new_work_is_refused_and_old_work_finished(
    backend: HeldBackend,
) -> None:
    async def scenario(server: RunningServer, client: httpx2.AsyncClient) -> None:
        backend.gate.clear()
        work = [asyncio.create_task(client.post("/v1/evaluate", json=EXAMPLE)) for _ in range(3)]
        await until(lambda: server.batcher.state().requests == 3)
        stopping = asyncio.create_task(server.stop())
        await until(lambda: server.batcher.state().draining)
        ready = await client.get("/health/ready")
        assert (ready.status_code, ready.headers["connection"]) == (503, "close")
        assert ready.json()["error"] == "draining: the server is shutting down"
        assert (await client.get("/health/live")).status_code == 200
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

    serve(backend, scenario)


def test_idle_and_half_said_connections_do_not_hold_up_the_end(backend: HeldBackend) -> None:
    async def scenario(server: RunningServer, client: httpx2.AsyncClient) -> None:
        assert (await client.get("/health/live")).status_code == 200  # stays open, idle
        port = port_of(server)
        waiting = [asyncio.create_task(hear(port, said)) for said in (b"", GET_LIVE[:9])]
        await asyncio.sleep(0.1)
        assert await server.stop()
        assert await asyncio.gather(*waiting) == [b"", b""]

    serve(backend, scenario, header_timeout_seconds=3600.0, idle_timeout_seconds=3600.0)


def test_what_is_not_finished_within_the_grace_is_said_and_answered(backend: HeldBackend) -> None:
    async def scenario(server: RunningServer, client: httpx2.AsyncClient) -> None:
        backend.gate.clear()
        work = asyncio.create_task(client.post("/v1/evaluate", json=EXAMPLE))
        await until(lambda: server.batcher.state().call_seconds is not None)
        assert not await server.stop()
        answer = await work
        assert (answer.status_code, answer.json()["error_type"]) == (503, "draining")

    serve(backend, scenario, grace_seconds=0.2)
